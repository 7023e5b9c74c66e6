#include "kv_offload/messages/atomic_groups.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;

namespace {
OffloadKey key(const std::string& hash, std::uint32_t group) {
  return *OffloadKey::make(std::as_bytes(std::span(hash)), group);
}
}  // namespace

TEST_CASE("siblings are visible together or not at all") {
  const AtomicGroups groups({{0, 1}, {4, 5, 6}});
  const KeyList keys{key("a", 0), key("a", 1), key("b", 0), key("b", 1), key("c", 2), key("d", 4), key("d", 6)};
  std::vector<bool> visible{true, true, true, false, true, true, true};
  groups.hide_incomplete(keys, visible);
  CHECK(visible == std::vector<bool>{true, true, false, false, true, false, false});
}

TEST_CASE("a key named twice is no sibling of itself") {
  const AtomicGroups groups({{0, 1}});
  const KeyList keys{key("a", 0), key("a", 0)};
  std::vector<bool> visible{true, true};
  groups.hide_incomplete(keys, visible);
  CHECK(visible == std::vector<bool>{false, false});
}

TEST_CASE("a prefix is cut before the first siblings that it would part") {
  const AtomicGroups groups({{0, 1}});
  const KeyList keys{key("a", 0), key("a", 1), key("b", 0), key("b", 1)};
  CHECK(groups.complete_prefix(keys, 4) == 4);
  CHECK(groups.complete_prefix(keys, 3) == 2);
  CHECK(groups.complete_prefix(keys, 1) == 0);
  // All of one group first: a cut between the groups leaves nothing.
  const KeyList by_group{key("a", 0), key("b", 0), key("a", 1), key("b", 1)};
  CHECK(groups.complete_prefix(by_group, 3) == 0);
}

TEST_CASE("a cut goes before the first whose sibling lies behind it") {
  const AtomicGroups groups({{0, 1}});
  const KeyList keys{key("a", 0), key("a", 1), key("b", 0), key("b", 1)};
  CHECK(groups.first_parted(keys, 3) == 2);
  CHECK(groups.first_parted(keys, 2) == 2);
  CHECK(groups.first_parted(KeyList{key("b", 0), key("c", 1)}, 1) == 1);  // no siblings
}

TEST_CASE("without sets nothing is hidden") {
  const AtomicGroups groups;
  CHECK(groups.empty());
  std::vector<bool> visible{true, false};
  groups.hide_incomplete(KeyList{key("a", 0), key("a", 1)}, visible);
  CHECK(visible == std::vector<bool>{true, false});
  CHECK(groups.complete_prefix(KeyList{key("a", 0)}, 1) == 1);
}

TEST_CASE("a set may have 64 groups") {
  std::vector<std::uint32_t> set(64);
  for (std::uint32_t g = 0; g < 64; ++g) set[g] = g;
  const AtomicGroups groups({set});
  KeyList keys;
  for (std::uint32_t g = 0; g < 64; ++g) keys.push_back(key("a", g));
  CHECK(groups.complete_prefix(keys, 64) == 64);
  CHECK(groups.complete_prefix(keys, 63) == 0);
}
