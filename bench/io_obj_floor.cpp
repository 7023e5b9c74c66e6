#include "kv_offload/bench/io_obj_floor.hpp"

#include "kv_offload/tiers/obj/credential_sources.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/obj/sigv4.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <variant>
#include <vector>

namespace kv_offload::bench {
namespace {

constexpr long kPieceBytes = 256 << 10;  // as the tier's

class ObjFloor final : public IoContestant {
 public:
  explicit ObjFloor(const IoShape& shape)
      : shape_(shape), signer_(shape.store->region, "s3"), memory_(shape.depth * shape.chunk_bytes) {
    for (std::size_t at = 0; at + 8 <= memory_.size(); at += 8) {
      const std::uint64_t word = at * 0x9e3779b97f4a7c15ULL;
      std::memcpy(memory_.data() + at, &word, sizeof word);
    }
  }
  ~ObjFloor() override {
    for (Handle& h : handles_) {
      curl_slist_free_all(h.headers);
      curl_easy_cleanup(h.easy);
    }
    if (multi_ != nullptr) curl_multi_cleanup(multi_);
  }
  ObjFloor(const ObjFloor&) = delete;
  ObjFloor& operator=(const ObjFloor&) = delete;

  [[nodiscard]] std::string name() const override { return "floor: libcurl"; }
  Expected<IoFigure> store() override { return run(false); }
  Expected<IoFigure> load() override { return run(true); }

 private:
  struct Handle {
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    std::span<std::byte> buffer;
    std::size_t moved = 0;
  };

  static std::size_t take(char* data, std::size_t size, std::size_t n, void* handle) {
    auto& h = *static_cast<Handle*>(handle);
    const std::size_t bytes = std::min(size * n, h.buffer.size() - h.moved);
    std::memcpy(h.buffer.data() + h.moved, data, bytes);
    h.moved += bytes;
    return size * n;
  }
  static std::size_t give(char* to, std::size_t size, std::size_t n, void* handle) {
    auto& h = *static_cast<Handle*>(handle);
    const std::size_t bytes = std::min(size * n, h.buffer.size() - h.moved);
    std::memcpy(to, h.buffer.data() + h.moved, bytes);
    h.moved += bytes;
    return bytes;
  }
  static int seek(void* handle, curl_off_t offset, int) {
    static_cast<Handle*>(handle)->moved = static_cast<std::size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  Expected<Ok> open() {
    if (multi_ != nullptr) return Ok{};
    auto resolved = resolve_credentials(shape_.store->credentials, process_environment);
    if (!resolved) return resolved.error();
    if (const auto* fixed = std::get_if<AwsCredentials>(&resolved->value)) credentials_ = *fixed;
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(shape_.depth));
    handles_.resize(shape_.depth);
    for (std::uint32_t i = 0; i < shape_.depth; ++i) {
      Handle& h = handles_[i];
      h.easy = curl_easy_init();
      h.buffer = std::span(memory_).subspan(i * shape_.chunk_bytes, shape_.chunk_bytes);
      curl_easy_setopt(h.easy, CURLOPT_PRIVATE, &h);
      curl_easy_setopt(h.easy, CURLOPT_NOSIGNAL, 1L);
      curl_easy_setopt(h.easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
      curl_easy_setopt(h.easy, CURLOPT_PATH_AS_IS, 1L);
      curl_easy_setopt(h.easy, CURLOPT_BUFFERSIZE, kPieceBytes);
      curl_easy_setopt(h.easy, CURLOPT_UPLOAD_BUFFERSIZE, kPieceBytes);
      curl_easy_setopt(h.easy, CURLOPT_WRITEFUNCTION, &take);
      curl_easy_setopt(h.easy, CURLOPT_WRITEDATA, &h);
      curl_easy_setopt(h.easy, CURLOPT_READFUNCTION, &give);
      curl_easy_setopt(h.easy, CURLOPT_READDATA, &h);
      curl_easy_setopt(h.easy, CURLOPT_SEEKFUNCTION, &seek);
      curl_easy_setopt(h.easy, CURLOPT_SEEKDATA, &h);
      if (!shape_.store->ca_bundle.empty())
        curl_easy_setopt(h.easy, CURLOPT_CAINFO, shape_.store->ca_bundle.c_str());
    }
    return Ok{};
  }

  void begin(Handle& h, bool is_load, std::uint32_t number) {
    const auto& store = *shape_.store;
    const std::string path = "/" + store.place().bucket + "/" +
                             uri_encode("kv-offload-bench/floor/" + to_hex(io_key(number).content_hash()), true);
    SigV4Request request;
    request.method = is_load ? "GET" : "PUT";
    request.canonical_path = path;
    request.headers = {{"host", store.place().host}};
    request.payload_hash = "UNSIGNED-PAYLOAD";
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    curl_slist_free_all(h.headers);
    h.headers = curl_slist_append(nullptr, "Expect:");
    for (const auto& [name, value] : signer_.sign(request, credentials_, now))
      h.headers = curl_slist_append(h.headers, (name + ": " + value).c_str());
    h.moved = 0;
    curl_easy_setopt(h.easy, CURLOPT_URL, (store.place().scheme + "://" + store.place().host + path).c_str());
    curl_easy_setopt(h.easy, CURLOPT_HTTPHEADER, h.headers);
    if (is_load) {
      curl_easy_setopt(h.easy, CURLOPT_HTTPGET, 1L);
    } else {
      curl_easy_setopt(h.easy, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(h.easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(shape_.chunk_bytes));
    }
    curl_multi_add_handle(multi_, h.easy);
  }

  Expected<IoFigure> run(bool is_load) {
    if (auto opened = open(); !opened) return opened.error();
    const auto order = io_order(shape_.chunks());
    const IoStopwatch watch;
    std::size_t next = 0;
    std::size_t ended = 0;
    const auto number = [&](std::size_t at) { return is_load ? order[at] : static_cast<std::uint32_t>(at); };
    for (Handle& h : handles_)
      if (next < order.size()) begin(h, is_load, number(next++));
    while (ended < order.size()) {
      int running = 0;
      curl_multi_perform(multi_, &running);
      int queued = 0;
      bool any = false;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &queued)) {
        if (message->msg != CURLMSG_DONE) continue;
        Handle* h = nullptr;
        long status = 0;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &h);
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        const CURLcode code = message->data.result;
        if (code != CURLE_OK || status != 200)
          return {OffloadErrc::io_error, std::string("floor: HTTP ") + std::to_string(status) + ", " +
                                             curl_easy_strerror(code)};
        curl_multi_remove_handle(multi_, h->easy);
        ++ended;
        any = true;
        if (next < order.size()) begin(*h, is_load, number(next++));
      }
      if (!any) curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
    return watch.stop(shape_);
  }

  const IoShape shape_;
  SigV4Signer signer_;
  AwsCredentials credentials_;
  std::vector<std::byte> memory_;
  CURLM* multi_ = nullptr;
  std::vector<Handle> handles_;
};

}  // namespace

std::unique_ptr<IoContestant> io_obj_floor(const IoShape& shape) { return std::make_unique<ObjFloor>(shape); }

}  // namespace kv_offload::bench
