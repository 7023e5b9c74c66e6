// Holds the drawings of actors/README.md against what really happens, message by message.
#include "kv_offload/tests/support/virtual_engine.hpp"

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

using Lines = std::vector<std::string>;

/// The messages that one actor handled, in its order: what a drawing promises of that column.
Lines column(const Lines& trace, const std::string& actor) {
  Lines out;
  for (const auto& line : trace)
    if (line.rfind(actor + " ", 0) == 0) out.push_back(line.substr(actor.size() + 1));
  return out;
}

}  // namespace

TEST_CASE("a store and its cascade exchange the messages of the drawing", "[actor][trace]") {
  VirtualEngine e({});
  const auto r = e.request();
  e.take_trace();
  e.store(r, keys("k", 2));
  const auto trace = e.take_trace();
  CHECK(column(trace, "scheduler_step") == Lines{"PrepareStoreCall", "StoreReserved", "CompleteStoreCall",
                                                 "StorePublished", "CascadesDecided", "JobsEnded"});
  CHECK(column(trace, "primary_tier") == Lines{"ReserveStore", "PublishStore", "PinCascades", "TransfersEnded"});
  CHECK(column(trace, "admission_controller") == Lines{"AdmitCascades", "AdmissionCompleted"});
  CHECK(column(trace, "job_tracker") == Lines{"TrackJobs", "LaneReport"});
  CHECK(column(trace, "secondary_tier") == Lines{"SubmitJobs", "LaneReport"});
  CHECK(column(trace, "engine_metrics").empty());
}

TEST_CASE("a hit needs the primary tier alone", "[actor][trace]") {
  VirtualEngine e({});
  const auto r = e.request();
  e.store(r, keys("k", 2));
  e.take_trace();
  auto found = e.lookup(r, keys("k", 2)).get();
  REQUIRE(found);
  CHECK(found->leading_hits == 2);
  auto load = e.prepare_load(r, keys("k", 2));
  REQUIRE(load);
  REQUIRE(e.complete_load(load->lease));
  CHECK(e.take_trace() == Lines{"scheduler_step LookupCall", "primary_tier PrimaryProbe",
                                "scheduler_step PrimaryProbed", "admission_controller LookupsAnswered",
                                "scheduler_step PrepareLoadCall",
                                "primary_tier PinLeading", "scheduler_step LeadingPinned",
                                "scheduler_step CompleteLoadCall", "primary_tier Unpin"});
}

TEST_CASE("a promotion exchanges the messages of the drawing", "[actor][trace]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 3)) e.tier().present.insert(key);
  const auto r = e.request();
  e.take_trace();
  auto found = e.lookup(r, keys("k", 3)).get();
  REQUIRE(found);
  CHECK(found->leading_hits == 3);
  const auto trace = e.take_trace();
  CHECK(column(trace, "scheduler_step") == Lines{"LookupCall", "PrimaryProbed", "TierProbed", "PrimaryClaimed",
                                                 "PromotionsDecided", "PrimaryGranted", "JobsEnded",
                                                 "KeysResolved"});
  CHECK(column(trace, "primary_tier") == Lines{"PrimaryProbe", "PrimaryClaim", "PrimaryGrant", "TransfersEnded"});
  CHECK(column(trace, "admission_controller") ==
        Lines{"AdmitPromotions", "AdmissionCompleted", "LookupsAnswered"});
  CHECK(column(trace, "job_tracker") == Lines{"TrackJobs", "LaneReport"});
  CHECK(column(trace, "secondary_tier") == Lines{"TierProbe", "LaneProbed", "SubmitJobs", "LaneReport"});
}

TEST_CASE("64 chunks share their messages, so many of them each way", "[actor][trace]") {
  constexpr std::size_t kBatch = 64;
  VirtualEngine e({.chunks = 1024});
  const auto r = e.request();
  e.take_trace();
  e.store(r, keys("k", kBatch));  // and into the tier
  const auto stored = e.take_trace().size();
  REQUIRE(e.lookup(r, keys("k", kBatch)).get()->leading_hits == kBatch);
  auto load = e.prepare_load(r, keys("k", kBatch));
  REQUIRE(load);
  REQUIRE(e.complete_load(load->lease));
  const auto hit = e.take_trace().size();
  const auto promote = [&](const std::string& prompt) {
    for (const auto& key : keys(prompt, kBatch)) e.tier().present.insert(key);
    REQUIRE(e.lookup(r, keys(prompt, kBatch)).get()->leading_hits == kBatch);
    return e.take_trace().size();
  };
  CHECK(stored == 16);
  CHECK(hit == 9);
  // Of a tier of which nothing is known yet probes go out in windows of 8, 32 and 128 keys, three messages each; then in
  // one that is as large as what was found.
  CHECK(promote("t") == 26);
  CHECK(promote("u") == 20);
}

TEST_CASE("a refusal ends after its decision and reaches neither tracker nor tier", "[actor][trace]") {
  VirtualEngine::Options options;
  options.pin_share = 0.05;  // less than one chunk
  VirtualEngine e(options);
  const auto r = e.request();
  e.take_trace();
  e.store(r, keys("k", 2));
  const auto trace = e.take_trace();
  CHECK(column(trace, "scheduler_step") ==
        Lines{"PrepareStoreCall", "StoreReserved", "CompleteStoreCall", "StorePublished", "CascadesDecided"});
  CHECK(column(trace, "primary_tier") == Lines{"ReserveStore", "PublishStore", "PinCascades"});
  CHECK(column(trace, "admission_controller") == Lines{"AdmitCascades"});
  CHECK(column(trace, "job_tracker").empty());
  CHECK(column(trace, "secondary_tier").empty());
}
