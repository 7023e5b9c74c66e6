#include "kv_offload/tiers/topology/pin_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/mempolicy.h>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kv_offload {

std::string pin_thread(const Domain& domain, const std::string& name) {
  if (!name.empty()) ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  const auto failed = [&](const char* what, int error) {
    return "cannot keep a thread on NUMA node " + std::to_string(domain.node) + ": " + what + ": " +
           std::strerror(error);
  };
  if (domain.cpus.empty()) return failed("its CPUs", ENODEV);
  const auto last = *std::max_element(domain.cpus.begin(), domain.cpus.end());
  struct SetEnd {
    void operator()(cpu_set_t* s) const { CPU_FREE(s); }
  };
  const std::unique_ptr<cpu_set_t, SetEnd> cpus(CPU_ALLOC(last + 1));  // cpu_set_t ends at 1024
  if (cpus == nullptr) return failed("affinity", ENOMEM);
  const std::size_t bytes = CPU_ALLOC_SIZE(last + 1);
  CPU_ZERO_S(bytes, cpus.get());
  for (const auto cpu : domain.cpus) CPU_SET_S(cpu, bytes, cpus.get());
  if (const int e = ::pthread_setaffinity_np(::pthread_self(), bytes, cpus.get()); e != 0)
    return failed("affinity", e);
  // Undoes what the process may have been started with (numactl --interleave). Where a container forbids the call,
  // nearly always nothing was set, and without a policy memory is local, too.
  if (::syscall(SYS_set_mempolicy, MPOL_LOCAL, nullptr, 0UL) != 0 && errno != EPERM &&
      errno != ENOSYS)
    return failed("memory policy", errno);
  return {};
}

bool runs_on(const Domain& domain) {
  if (domain.cpus.empty()) return true;
  const int cpu = ::sched_getcpu();
  return cpu >= 0 && std::binary_search(domain.cpus.begin(), domain.cpus.end(),
                                        static_cast<std::uint32_t>(cpu));
}

}  // namespace kv_offload
