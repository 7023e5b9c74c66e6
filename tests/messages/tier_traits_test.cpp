#include "kv_offload/messages/tier_traits.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;

TEST_CASE("labels count the primary tier first", "[messages][unit]") {
  CHECK(primary_label() == "0:primary");
  CHECK(tier_label(0, "fs") == "1:fs");
  CHECK(tier_label(9, "obj") == "10:obj");
}

TEST_CASE("names are canonical upper case", "[messages][unit]") {
  CHECK(to_string(Medium::cpu) == "CPU");
  CHECK(to_string(Medium::storage) == "STORAGE");
  CHECK(to_string(Locality::local) == "LOCAL");
  CHECK(to_string(Locality::remote) == "REMOTE");
}

TEST_CASE("a side missing on the matcher or on the tier matches everything", "[messages][unit]") {
  const std::optional<Locality> sides[] = {std::nullopt, Locality::local, Locality::remote};
  for (const auto& wanted : sides) {
    for (const auto& has : sides) {
      const TierMatcher matcher{std::nullopt, wanted};
      CHECK(matcher.allows({"fs", Medium::storage, has}) == (!wanted || !has || *wanted == *has));
    }
  }
  const std::optional<Medium> media[] = {std::nullopt, Medium::cpu, Medium::storage};
  for (const auto& wanted : media)
    for (const auto& has : media)
      CHECK(TierMatcher{wanted, std::nullopt}.allows({"p2p", has, Locality::local}) ==
            (!wanted || !has || *wanted == *has));
}

TEST_CASE("both sides of a matcher must agree", "[messages][unit]") {
  const TierMatcher matcher{Medium::storage, Locality::remote};
  CHECK(matcher.allows({"obj", Medium::storage, Locality::remote}));
  CHECK_FALSE(matcher.allows({"fs", Medium::storage, Locality::local}));
  CHECK_FALSE(matcher.allows({"p2p", Medium::cpu, Locality::remote}));
}

TEST_CASE("a filter allows all by default, none when told so, else any match", "[messages][unit]") {
  const TierTraits fs{"fs", Medium::storage, Locality::local};
  const TierTraits obj{"obj", Medium::storage, Locality::remote};
  const TierTraits unknown{"x", std::nullopt, std::nullopt};

  const TierFilter all;
  CHECK(all.is_all());
  CHECK(all.allows(fs));

  const auto none = TierFilter::only({});
  CHECK_FALSE(none.is_all());
  for (const auto& tier : {fs, obj, unknown}) CHECK_FALSE(none.allows(tier));

  const auto remote =
      TierFilter::only({{Medium::cpu, std::nullopt}, {std::nullopt, Locality::remote}});
  CHECK_FALSE(remote.is_all());
  CHECK_FALSE(remote.allows(fs));
  CHECK(remote.allows(obj));
  CHECK(remote.allows(unknown));
}
