#include "kv_offload/bench/object_server/server_state.hpp"

namespace kv_offload::bench {

void RequestLog::add(const std::string& head, const std::string& key, std::uint64_t body_bytes) {
  const std::lock_guard lock(mutex_);
  Line line;
  if (lines_.size() == kKept) {  // its memory is used again
    line = std::move(lines_.front());
    lines_.pop_front();
  }
  line.head = head;
  line.key = key;
  line.body_bytes = body_bytes;
  lines_.push_back(std::move(line));
}

std::vector<SeenRequest> RequestLog::read() const {
  std::deque<Line> lines;
  {
    const std::lock_guard lock(mutex_);
    lines = lines_;
  }
  std::vector<SeenRequest> seen;
  for (Line& line : lines) {
    HttpRequest request;
    parse_head(line.head, request);
    seen.push_back({.method = std::string(request.method),
                    .target = std::string(request.target),
                    .key = line.key,
                    .headers = {request.headers.begin(), request.headers.end()},
                    .body_bytes = line.body_bytes});
  }
  return seen;
}

void RequestLog::clear() {
  const std::lock_guard lock(mutex_);
  lines_.clear();
}

void ServerState::count(S3Request::Kind kind) {
  switch (kind) {
    case S3Request::Kind::get: ++gets; return;
    case S3Request::Kind::put: ++puts; return;
    case S3Request::Kind::head: ++heads; return;
    case S3Request::Kind::remove: ++deletes; return;
    case S3Request::Kind::list: ++lists; return;
    case S3Request::Kind::multi_delete: ++multi_deletes; return;
    case S3Request::Kind::head_bucket:
    case S3Request::Kind::other: ++others; return;
  }
}

}  // namespace kv_offload::bench
