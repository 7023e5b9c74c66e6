#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::bench {

/// What a store can do wrong, seen from its client. `argument` and `text` of a rule mean what stands here.
enum class ServerFaultKind {
  status,             ///< answers HTTP status `argument` with S3 code `text` (empty: the usual one)
  redirect,           ///< 301 PermanentRedirect to region `text` (empty: eu-central-1)
  close_at_once,      ///< closes after the request's head
  close_after_bytes,  ///< PUT: closes after `argument` bytes of its body; else: of the answer's body
  close_after_answer,  ///< answers with keep-alive, then closes: the client's pooled connection is stale
  short_body,  ///< announces the whole body, sends `argument` bytes fewer (0: half of it), closes
  wrong_length,  ///< a body longer by `argument` bytes, zeros (negative: shorter; 0: -1), framed rightly
  wrong_bytes,    ///< the byte at `argument` of the answer's body is flipped
  drop_metadata,  ///< answers without x-amz-meta-*; a PUT forgets them
  delay_ms,       ///< waits so long before the answer; a later rule may still match
  trickle,        ///< `argument` bytes per second of the answer's body, and read of a PUT's body
  hang,           ///< no answer until the rule is gone: then the usual one
  skew,  ///< the server's clock is `argument` seconds ahead: Date says so, and a request whose x-amz-date
         ///< is over 15 min away from it gets 403 RequestTimeTooSkewed
  garbage,       ///< `argument` bytes (0: 64) that are no HTTP, then closes
  huge_headers,  ///< the usual answer with `argument` bytes (0: 1 MiB) of further header lines
  text,          ///< HTTP status `argument` (0: 200) with `text` as its body
  xml_garbage,   ///< HTTP status `argument` (0: 200) with XML that breaks off
};

/// One rule. It counts the requests that match it; the first `after` pass, the next `times` get the fault.
struct ServerFault {
  std::string method = {};  ///< "" is any
  std::string key_contains =
      {};  ///< in the decoded key; of a bucket's request, in the decoded query
  ServerFaultKind kind = ServerFaultKind::status;
  std::int64_t argument = 0;
  std::string text = {};
  std::optional<int> retry_after_s = {};  ///< with status
  std::uint64_t times = 0;                ///< 0: for ever
  std::uint64_t after = 0;
  bool early =
      false;  ///< status, skew, hang: before the body of a PUT was read; the connection then closes
};

/// The rules of one server. The first that matches wins; delays add up on the way to it. Any thread.
class ServerFaults {
 public:
  using RuleId = std::uint64_t;

  RuleId add(ServerFault fault);
  void remove(RuleId rule);
  void clear();  ///< releases what hangs

  /// How many requests got this rule's fault; also after the rule is gone.
  [[nodiscard]] std::uint64_t hits(RuleId rule) const;
  [[nodiscard]] bool active(RuleId rule) const;

  /// For the server: what happens to this request.
  struct Drawn {
    std::uint64_t delay_ms = 0;
    std::optional<ServerFault> fault = {};
    RuleId rule = 0;
  };
  [[nodiscard]] Drawn draw(const std::string& method, const std::string& key);

 private:
  struct Rule {
    RuleId id = 0;
    ServerFault fault;
    std::uint64_t seen = 0;
  };
  mutable std::mutex mutex_;
  std::vector<Rule> rules_;
  std::vector<std::uint64_t> hits_;  ///< by rule; ids count from 1
};

}  // namespace kv_offload::bench
