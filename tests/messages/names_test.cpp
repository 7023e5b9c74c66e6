// Reasons and failures end up in labels and logs: each has one name, and the counts are right.
#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/transfer_job.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace kv_offload;

namespace {
template <class Enum>
std::size_t distinct_names(std::size_t count) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < count; ++i) {
    const auto name = to_string(static_cast<Enum>(i));
    CHECK(name != "unknown");
    names.insert(name);
  }
  CHECK(to_string(static_cast<Enum>(count)) == "unknown");
  return names.size();
}
}  // namespace

TEST_CASE("every refusal reason has a name of its own", "[messages][unit]") {
  CHECK(distinct_names<RefusalReason>(kNumRefusalReasons) == kNumRefusalReasons);
}

TEST_CASE("every transfer failure has a name of its own", "[messages][unit]") {
  CHECK(distinct_names<TransferFailure>(kNumTransferFailures) == kNumTransferFailures);
}

TEST_CASE("a job's bytes are its chunks times the row", "[messages][unit]") {
  TransferJob job;
  CHECK(job.bytes() == 0);
  job.keys.resize(3);
  job.chunk_bytes = 5'000'000'000;  // beyond 32 bits
  CHECK(job.bytes() == 15'000'000'000);
}
