#include "kv_offload/bench/object_store_process.hpp"

#include "kv_offload/bench/object_server/object_server.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload::bench {

namespace {

/// The child: serves until it is told to end, or its parent is gone.
[[noreturn]] void serve(int answer, bool discard_bodies, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C is the parent's
  ObjectServerOptions options;
  options.bucket = ObjectStoreProcess::kBucket;
  options.discard_bodies = discard_bodies;
  ObjectServer server(options);
  const auto started = server.start();
  const std::string line = started ? server.endpoint() : "!" + to_string(started.error());
  if (::write(answer, line.data(), line.size()) < 0) ::_exit(1);
  ::close(answer);
  while (true) ::pause();
}

}  // namespace

Expected<std::unique_ptr<ObjectStoreProcess>> ObjectStoreProcess::start(bool discard_bodies) {
  int ends[2];
  if (::pipe(ends) != 0) return {OffloadErrc::io_error, std::string("pipe: ") + std::strerror(errno)};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    serve(ends[1], discard_bodies, parent);
  }
  ::close(ends[1]);
  std::string answer;
  char piece[256];
  ssize_t got = 0;
  while (pid > 0 && ((got = ::read(ends[0], piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR)))
    if (got > 0) answer.append(piece, static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (pid < 0) return {OffloadErrc::io_error, std::string("fork: ") + std::strerror(errno)};
  std::unique_ptr<ObjectStoreProcess> process(new ObjectStoreProcess(pid, answer));
  if (answer.empty() || answer[0] == '!')
    return {OffloadErrc::io_error, "no object store: " + (answer.empty() ? "it ended" : answer.substr(1))};
  return process;
}

ObjectStoreProcess::~ObjectStoreProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace kv_offload::bench
