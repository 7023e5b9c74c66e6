#pragma once

#include <pthread.h>
#include <signal.h>
#include <string>

namespace kv_offload {

/// Names the calling thread, cut to the kernel's 15 characters.
inline void name_this_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

/// The embedding process' signal handlers run on its own threads: while this lives, the calling thread has
/// all signals blocked, and so has every thread that it starts.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace kv_offload
