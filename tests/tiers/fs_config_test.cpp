#include "kv_offload/tiers/fs/fs_config.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

using Object = ConfigNode::Object;

Expected<FsConfig> parse(Object object) {
  object.emplace("type", ConfigNode(std::string("fs")));
  return parse_fs_config(ConfigNode(object), "secondary_tiers[1]");
}
template <class Value>
Object with(const std::string& key, const Value& value) {
  Object object;
  object.emplace("root_dir", ConfigNode(std::string("/data")));
  object[key] = ConfigNode(value);
  return object;
}
std::string error_of(const Object& object) {
  const auto config = parse(object);
  REQUIRE_FALSE(config);
  CHECK(config.error().code == OffloadErrc::invalid_config);
  return config.error().detail;
}

TEST_CASE("only the root is required, everything else has its default", "[fs]") {
  const auto config = parse(with("root_dir", std::string("/data")));
  REQUIRE(config);
  CHECK(config->root_dir == "/data");
  CHECK_FALSE(config->locality.has_value());
  CHECK_FALSE(config->enable_kv_events);
  CHECK(config->foreign_files == ForeignFiles::refuse);
  CHECK(config->checksum);
  CHECK(config->durability == Durability::none);
  CHECK(config->inflight_bytes_max == 4U << 20);
}

TEST_CASE("parameters are read in every spelling the layout allows", "[fs]") {
  CHECK(parse(with("locality", std::string("remote")))->locality == Locality::remote);
  CHECK(parse(with("locality", std::string("Local")))->locality == Locality::local);
  CHECK_FALSE(parse(with("locality", nullptr))->locality.has_value());
  CHECK_FALSE(parse(with("checksum", std::string("off")))->checksum);
  CHECK_FALSE(parse(with("checksum", false))->checksum);
  CHECK(parse(with("foreign_files", std::string("accept")))->foreign_files == ForeignFiles::accept);
  CHECK(parse(with("durability", std::string("full")))->durability == Durability::full);
  CHECK(parse(with("io", std::string("threads")))->io == IoMode::threads);
  CHECK(parse(with("io", std::string("auto")))->io == IoMode::automatic);
  CHECK_FALSE(parse(with("queue_depth", std::int64_t{7}))->io.has_value());
  CHECK(parse(with("queue_depth", std::int64_t{7}))->queue_depth == 7);
  CHECK(parse(with("max_inflight_bytes", std::int64_t{1} << 20))->inflight_bytes_max == 1U << 20);
}

TEST_CASE("thread counts of the public layout are accepted and said to do nothing", "[fs]") {
  const auto config = parse(with("n_read_threads", std::int64_t{16}));
  REQUIRE(config);
  CHECK(config->without_effect == std::vector<std::string>{"n_read_threads"});
  CHECK(error_of(with("io_threads", std::int64_t{0})).find("secondary_tiers[1].io_threads") == 0);
}

TEST_CASE("keys that the engine reads are none of the tier's business", "[fs]") {
  for (const char* key : {"backpressure", "pin_share", "label"})
    CHECK(parse(with(key, std::string("whatever"))));
}

TEST_CASE("what is wrong is named with its path, its value and what is allowed", "[fs]") {
  CHECK(error_of({}) == "secondary_tiers[1].root_dir: required, the path of an existing directory");
  CHECK(error_of(with("root_dir", std::int64_t{5})).find("secondary_tiers[1].root_dir: 5") == 0);
  CHECK(error_of(with("locality", std::string("near"))) ==
        "secondary_tiers[1].locality: \"near\" is not allowed; expected one of: LOCAL, REMOTE");
  CHECK(error_of(with("locality", std::string(""))).find("secondary_tiers[1].locality") == 0);
  CHECK(error_of(with("checksum", std::string("maybe"))).find("one of: on, off") !=
        std::string::npos);
  CHECK(error_of(with("durability", std::string("some"))).find("none, data, full") !=
        std::string::npos);
  CHECK(error_of(with("queue_depth", std::int64_t{0})).find("[1, 4096]") != std::string::npos);
  CHECK(error_of(with("io", std::string("aio"))) ==
        "secondary_tiers[1].io: \"aio\" is not allowed; expected one of: auto, uring, threads");
  CHECK(error_of(with("io", true)).find("secondary_tiers[1].io: true is not allowed") == 0);
  CHECK(error_of(with("rootdir", std::string("/x")))
            .find("secondary_tiers[1].rootdir: unknown key") == 0);
}

}  // namespace
}  // namespace kv_offload
