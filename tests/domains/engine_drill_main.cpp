// A whole engine over several NUMA domains, driven from threads on all of their nodes:
//   engine_drill --domains auto|N [--topology SOURCE] [--dir DIR] [--threads N] [--rounds N] [--seed X]
// Each round a thread takes over a request that another one opened, stores or loads a prompt of it and compares every
// byte. At the end: every page and every handler of a domain is where the plan says, no chunk is there twice, the
// events of each key are in order, the promises hold. One line per check; status 1 if one failed.
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/tests/support/secondary_tier_config.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"
#include "kv_offload/tiers/topology/place_memory.hpp"
#include "kv_offload/tiers/topology/topology.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace kv_offload::test {
namespace {

constexpr std::uint64_t kChunkBytes = 16 * 1024;
constexpr std::uint32_t kChunks = 512;  // fewer than the prompts have: chunks come and go
constexpr std::size_t kPrompts = 48, kPromptChunks = 24;

struct Options {
  std::string domains = "auto", topology, dir;
  int threads = 4, rounds = 150;
  std::uint64_t seed = 1;
};

int failures = 0;

void check(bool held, const std::string& what) {
  std::printf("%s %s\n", held ? "ok  " : "FAIL", what.c_str());
  failures += held ? 0 : 1;
}

OffloadKey key(std::size_t prompt, std::size_t chunk) {
  std::byte hash[32] = {static_cast<std::byte>(prompt), static_cast<std::byte>(chunk),
                        std::byte{7}};
  return *OffloadKey::make(hash, 0);
}
KeyList prompt_keys(std::size_t prompt) {
  KeyList keys;
  for (std::size_t c = 0; c < kPromptChunks; ++c) keys.push_back(key(prompt, c));
  return keys;
}
void fill(std::span<std::byte> row, const OffloadKey& key) {
  std::mt19937_64 words(key.hash());
  for (std::size_t at = 0; at + 8 <= row.size(); at += 8) {
    const auto word = words();
    std::memcpy(&row[at], &word, 8);
  }
}
bool is_right(std::span<const std::byte> row, const OffloadKey& key) {
  std::mt19937_64 words(key.hash());
  for (std::size_t at = 0; at + 8 <= row.size(); at += 8) {
    const auto word = words();
    if (std::memcmp(&row[at], &word, 8) != 0) return false;
  }
  return true;
}

/// Requests on their way from the thread that opened them to any other.
class HandedOn {
 public:
  void put(RequestHandle request) {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
  }
  std::optional<RequestHandle> take(std::mt19937_64& random) {
    const std::scoped_lock lock(mutex_);
    if (requests_.empty()) return std::nullopt;
    std::swap(requests_[random() % requests_.size()], requests_.back());
    const auto request = requests_.back();
    requests_.pop_back();
    return request;
  }

 private:
  std::mutex mutex_;
  std::vector<RequestHandle> requests_;
};

struct Counts {
  std::atomic<std::uint64_t> loaded{0}, wrong{0}, stored{0}, errors{0}, handed{0};
};

template <class T>
std::optional<T> value(Expected<T> answer, Counts& counts) {
  if (answer) return *std::move(answer);
  if (answer.error().code != OffloadErrc::no_space) {
    ++counts.errors;
    std::printf("     %s\n", to_string(answer.error()).c_str());
  }
  return std::nullopt;
}

void one_prompt(OffloadEngine& engine, RequestHandle request, std::size_t prompt, Counts& counts) {
  const auto keys = prompt_keys(prompt);
  const auto asked_at = std::chrono::steady_clock::now();
  const auto found = value(engine.lookup(request, keys).get(), counts);
  if (!found) return;
  const auto took = std::chrono::steady_clock::now() - asked_at;
  if (took > std::chrono::seconds(1))
    std::printf(
        "     a lookup took %.1f s: %u leading, %u promoted, %u truncated, %u refused, %u gave "
        "up\n",
        std::chrono::duration<double>(took).count(), found->leading_hits, found->promoted,
        found->truncated, found->refused, found->gave_up);
  if (const auto load = value(engine.prepare_load(request, keys).get(), counts)) {
    for (std::size_t n = 0; n < load->chunk_ids.size(); ++n)
      ++(is_right(engine.chunk(load->chunk_ids[n]), keys[n]) ? counts.loaded : counts.wrong);
    value(engine.complete_load(load->lease).get(), counts);
  }
  if (const auto store = value(engine.prepare_store(request, keys).get(), counts)) {
    for (std::size_t n = 0; n < store->chunk_ids.size(); ++n)
      fill(engine.chunk(store->chunk_ids[n]), keys[store->key_idx[n]]);
    counts.stored += store->chunk_ids.size();
    value(engine.complete_store(store->lease, {.success = true, .wait_cascades = true}).get(),
          counts);
  }
}

void serve(OffloadEngine& engine, const DomainPlan& plan, const Options& options, int thread,
           HandedOn& handed, Counts& counts) {
  const auto here = static_cast<DomainId>(thread % plan.num_domains());
  if (plan.pins)
    if (const auto why = pin_thread(plan.domains[here]); !why.empty())
      std::printf("     %s\n", why.c_str());
  std::mt19937_64 random(options.seed + static_cast<std::uint64_t>(thread));
  for (int round = 0; round < options.rounds; ++round) {
    NewRequest mine;
    mine.req_id = std::to_string(thread) + "-" + std::to_string(round);
    if (!plan.pins) mine.domain = here;  // nobody is anywhere: say it
    const auto opened = value(engine.new_request(mine).get(), counts);
    if (!opened) return;
    if (opened->handle.domain != here) ++counts.errors;
    handed.put(opened->handle);
    if (round == 0) continue;  // so that there is always another thread's to take over
    const auto request = handed.take(random);
    if (!request) continue;
    if (*request != opened->handle) ++counts.handed;
    one_prompt(engine, *request, random() % kPrompts, counts);
    value(engine.request_finished(*request).get(), counts);
  }
}

void check_events(OffloadEngine& engine) {
  const auto events = engine.take_events().get();
  check(events.has_value(), "events are taken");
  if (!events) return;
  std::map<OffloadKey, bool> is_there;
  std::uint64_t disordered = 0, changes = 0;
  for (const auto& event : *events) {
    if (event.medium != Medium::cpu) continue;
    for (const auto& key : event.keys) {
      auto [it, is_new] = is_there.try_emplace(key, false);
      disordered += it->second != event.removed ? 1U : 0U;
      it->second = !event.removed;
      ++changes;
    }
  }
  std::uint64_t there = 0;
  for (const auto& [key, is] : is_there) there += is ? 1U : 0U;
  const auto stats = engine.stats().get();
  check(disordered == 0,
        "each key is stored and removed in turn: " + std::to_string(changes) + " events");
  check(stats && stats->primary.resident == there,
        "no chunk is there twice: " + std::to_string(there) + " resident");
}

void check_places(OffloadEngine& engine, const DomainPlan& plan) {
  const auto domains = plan.num_domains();
  const auto rows = engine.rows();
  const DomainMap map{domains, rows.num_chunks / (std::uint32_t{domains} * domains)};
  std::uint64_t elsewhere = 0, found = 0, absent = 0;
  if (plan.pins)
    for (ChunkId chunk = 0; chunk < map.num_chunks(); ++chunk) {
      const auto pages = find_pages(rows.base + chunk * rows.row_bytes, rows.row_bytes,
                                    plan.domains[map.domain_of(chunk)].node);
      found += pages.on_node;
      elsewhere += pages.elsewhere;
      absent += pages.absent + (pages.error != 0 ? 1U : 0U);
    }
  check(elsewhere + absent == 0,
        "every page lies on the node that the plan says: " + std::to_string(found) + " found, " +
            std::to_string(elsewhere) + " elsewhere, " + std::to_string(absent) + " not there");
  const auto stats = engine.stats().get();
  check(stats && stats->domains.size() == domains, std::to_string(domains) + " domains report");
  if (!stats) return;
  for (std::size_t d = 0; d < stats->domains.size(); ++d) {
    const auto& domain = stats->domains[d];
    const auto foreign =
        domain.scheduler_step.foreign_executions + domain.primary_tier.foreign_executions;
    const auto handled = domain.scheduler_step.messages + domain.primary_tier.messages;
    check(foreign == 0 && handled > 0, "domain " + std::to_string(d) + ": foreign_executions " +
                                           std::to_string(foreign) + " of " +
                                           std::to_string(handled));
    const auto& memory = domain.memory;
    check(plan.pins ? memory.planned_bytes > 0 && memory.near_bytes == memory.planned_bytes &&
                          memory.elsewhere_bytes == 0
                    : memory.planned_bytes == 0,
          "domain " + std::to_string(d) + " reports " + std::to_string(memory.near_bytes) + " of " +
              std::to_string(memory.planned_bytes) + " bytes near, " +
              std::to_string(memory.elsewhere_bytes) + " elsewhere");
    check(domain.requests_started > 0 && domain.resident > 0,
          "domain " + std::to_string(d) + " serves " + std::to_string(domain.requests_started) +
              " requests, keeps " + std::to_string(domain.resident) + " chunks");
  }
  for (const auto& promise : check_promises(*stats, true))
    check(promise.held,
          "promise " + std::to_string(promise.number) + " " + promise.name + " " + promise.why);
}

int run(const Options& options) {
  const auto topology = read_topology(options.topology);
  if (!topology) return std::fprintf(stderr, "%s\n", to_string(topology.error()).c_str()), 2;
  const auto plan = plan_domains(options.domains, *topology);
  if (!plan) return std::fprintf(stderr, "%s\n", to_string(plan.error()).c_str()), 2;
  EngineConfig config;
  config.domains = options.domains;
  config.topology = options.topology;
  config.chunk_bytes = kChunkBytes;
  config.cpu_bytes_to_use = kChunks * kChunkBytes;
  config.enable_kv_events = true;
  config.secondary_tiers.push_back(fs_tier(options.dir));
  config.log = [](const std::string& level, const std::string& line) {
    if (level != "debug") std::printf("     %s: %s\n", level.c_str(), line.c_str());
  };
  auto engine = OffloadEngine::start(std::move(config));
  if (!engine) return std::fprintf(stderr, "%s\n", to_string(engine.error()).c_str()), 2;
  HandedOn handed;
  Counts counts;
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t)
    threads.emplace_back([&, t] { serve(**engine, *plan, options, t, handed, counts); });
  for (auto& thread : threads) thread.join();
  std::mt19937_64 random(1);
  while (const auto left = handed.take(random))
    value((*engine)->request_finished(*left).get(), counts);
  check((*engine)->drain().get().has_value(), "the engine drains");
  check(counts.wrong == 0 && counts.loaded > 0,
        "every byte loaded is right: " + std::to_string(counts.loaded) + " chunks, " +
            std::to_string(counts.wrong) + " wrong");
  check(counts.errors == 0, "no call failed: " + std::to_string(counts.errors));
  check(counts.handed > 0,
        "requests are handed from thread to thread: " + std::to_string(counts.handed) + " of " +
            std::to_string(options.threads * options.rounds));
  check_places(**engine, *plan);
  check_events(**engine);
  check((*engine)->reset().get().has_value(), "a reset empties all domains");
  const auto stats = (*engine)->stats().get();
  check(stats && stats->primary.resident == 0, "nothing is left");
  check((*engine)->shutdown(), "the engine shuts down");
  return failures == 0 ? 0 : 1;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], text = argv[i + 1];
    if (name == "--domains")
      options.domains = text;
    else if (name == "--topology")
      options.topology = text;
    else if (name == "--dir")
      options.dir = text;
    else if (name == "--threads")
      options.threads = std::atoi(text.c_str());
    else if (name == "--rounds")
      options.rounds = std::atoi(text.c_str());
    else if (name == "--seed")
      options.seed = std::strtoull(text.c_str(), nullptr, 10);
    else
      return std::nullopt;
  }
  if (argc % 2 == 0 || options.threads < 1 || options.rounds < 1) return std::nullopt;
  return options;
}

}  // namespace
}  // namespace kv_offload::test

int main(int argc, char** argv) {
  auto options = kv_offload::test::parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: engine_drill [--domains auto|N] [--topology S] [--dir D] [--threads N] "
                 "[--rounds N] [--seed X]\n");
    return 2;
  }
  std::string made;
  if (options->dir.empty()) {
    char name[] = "/tmp/kv_offload-drill-XXXXXX";
    if (mkdtemp(name) == nullptr) return 2;
    options->dir = made = name;
  }
  const int status = kv_offload::test::run(*options);
  if (!made.empty()) std::filesystem::remove_all(made);
  return status;
}
