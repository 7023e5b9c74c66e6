#include "kv_offload/bench/object_server/object_server.hpp"

#include "kv_offload/bench/object_server/connection.hpp"
#include "kv_offload/bench/object_server/server_state.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

namespace kv_offload::bench {
namespace {

using asio::ip::tcp;

/// One thread and its connections.
struct Shard {
  Connection::Set connections;  // before the context, whose end ends the connections
  asio::io_context context{1};
  std::thread thread;
};

asio::awaitable<void> serve_connection(tcp::socket socket, ServerState& state, Shard& shard) {
  Connection connection(std::move(socket), state, shard.connections);
  try {
    co_await connection.run();
  } catch (const StreamClosed&) {
  } catch (const std::system_error&) {  // closed while it waited
  }
}

/// Closes those that have not moved a byte for long. Ends with the context.
asio::awaitable<void> sweep(ServerState& state, Shard& shard) {
  asio::steady_timer timer(shard.context);
  while (true) {
    timer.expires_after(std::chrono::seconds(1));
    co_await timer.async_wait(asio::use_awaitable);
    const auto oldest = ByteStream::Clock::now() - std::chrono::seconds(state.options.idle_close_s);
    for (Connection* each : shard.connections)
      if (each->last_moved() < oldest) each->close();
  }
}

}  // namespace

struct ObjectServer::Impl {
  explicit Impl(ObjectServerOptions options) : state(std::move(options)) {}

  asio::awaitable<void> accept(tcp::acceptor acceptor) {
    for (std::size_t next = 0;; next = (next + 1) % shards.size()) {
      Shard& shard = *shards[next];
      asio::error_code error;
      tcp::socket socket(shard.context);
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error) {  // out of file descriptors, or the client went: no reason to spin
        asio::steady_timer timer(acceptor.get_executor(), std::chrono::milliseconds(10));
        co_await timer.async_wait(asio::use_awaitable);
        continue;
      }
      if (state.open >= state.options.connections_max) continue;
      asio::co_spawn(shard.context, serve_connection(std::move(socket), state, shard),
                     asio::detached);
    }
  }

  ServerState state;
  std::vector<std::unique_ptr<Shard>> shards;
  std::atomic<std::uint16_t> port{0};
};

ObjectServer::ObjectServer(ObjectServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ObjectServer::~ObjectServer() { stop(); }

Expected<Ok> ObjectServer::start() {
  if (!impl_->shards.empty()) return Ok{};
  const auto& options = impl_->state.options;
  const auto wanted = impl_->port != 0 ? impl_->port.load() : options.port;
  std::vector<std::unique_ptr<Shard>> shards;
  for (unsigned i = 0; i < std::max(options.threads, 1U); ++i)
    shards.push_back(std::make_unique<Shard>());
  try {
    tcp::acceptor acceptor(shards[0]->context,
                           tcp::endpoint(asio::ip::address_v4::loopback(), wanted), true);
    impl_->port = acceptor.local_endpoint().port();
    impl_->shards = std::move(shards);
    asio::co_spawn(impl_->shards[0]->context, impl_->accept(std::move(acceptor)), asio::detached);
  } catch (const std::system_error& error) {
    return {OffloadErrc::io_error,
            "cannot listen on 127.0.0.1:" + std::to_string(wanted) + ": " + error.code().message()};
  }
  for (auto& shard : impl_->shards) {
    asio::co_spawn(shard->context, sweep(impl_->state, *shard), asio::detached);
    shard->thread = std::thread([&context = shard->context] { context.run(); });
  }
  return Ok{};
}

void ObjectServer::stop() {
  for (auto& shard : impl_->shards) shard->context.stop();
  for (auto& shard : impl_->shards)
    if (shard->thread.joinable()) shard->thread.join();
  impl_->shards.clear();
}

void ObjectServer::close_connections() {
  for (auto& shard : impl_->shards) {
    std::promise<void> done;
    asio::post(shard->context, [&] {
      for (Connection* each : shard->connections) each->close();
      done.set_value();
    });
    done.get_future().wait();
  }
}

std::uint16_t ObjectServer::port() const { return impl_->port; }

std::string ObjectServer::endpoint() const { return "http://127.0.0.1:" + std::to_string(port()); }

const std::string& ObjectServer::bucket() const { return impl_->state.options.bucket; }

ServerFaults& ObjectServer::faults() { return impl_->state.faults; }

ServerCounts ObjectServer::counts() const {
  const ServerState& state = impl_->state;
  return {.gets = state.gets,
          .puts = state.puts,
          .heads = state.heads,
          .deletes = state.deletes,
          .lists = state.lists,
          .multi_deletes = state.multi_deletes,
          .others = state.others,
          .connections_accepted = state.accepted,
          .connections_open = state.open,
          .body_bytes_in = state.bytes_in,
          .body_bytes_out = state.bytes_out};
}

std::vector<SeenRequest> ObjectServer::requests() const { return impl_->state.log.read(); }

void ObjectServer::forget_requests() { impl_->state.log.clear(); }

std::size_t ObjectServer::objects() const { return impl_->state.objects.size(); }

std::vector<std::string> ObjectServer::keys() const {
  std::vector<std::string> keys;
  for (auto& [key, object] : impl_->state.objects.list("", std::nullopt, std::size_t(-1)))
    keys.push_back(std::move(key));
  return keys;
}

std::optional<std::string> ObjectServer::header_of(const std::string& key,
                                                   const std::string& name) const {
  const auto object = impl_->state.objects.find(key);
  if (!object) return std::nullopt;
  const auto at = object->headers.find(name);
  return at == object->headers.end() ? std::nullopt : std::optional(at->second);
}

std::optional<std::string> ObjectServer::body_of(const std::string& key) const {
  const auto object = impl_->state.objects.find(key);
  if (!object) return std::nullopt;
  if (!object->bytes) return std::string(object->size, '\0');
  return std::string(reinterpret_cast<const char*>(object->bytes.get()), object->size);
}

bool ObjectServer::corrupt(const std::string& key, std::uint64_t byte_at) {
  return impl_->state.objects.flip(key, byte_at);
}

bool ObjectServer::remove(const std::string& key) { return impl_->state.objects.remove(key); }

void ObjectServer::put(const std::string& key, std::string_view bytes,
                       const ObjectHeaders& headers) {
  StoredObject object;
  object.size = bytes.size();
  object.headers = headers;
  if (!impl_->state.options.discard_bodies) {
    object.bytes = std::shared_ptr<std::byte[]>(new std::byte[bytes.size()]);
    if (!bytes.empty()) std::memcpy(object.bytes.get(), bytes.data(), bytes.size());
    impl_->state.objects.reserve_beyond(bytes.size());
  }
  impl_->state.objects.put(key, std::move(object), false);
}

}  // namespace kv_offload::bench
