#include "kv_offload/tiers/fs/fs_forgetter.hpp"

#include "kv_offload/tiers/fs/chunk_walk.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

constexpr auto kDestructionPatience = std::chrono::seconds(5);

struct Removal {
  std::uint64_t chunks = 0;
  std::string error;  ///< of the first that could not be removed

  bool remove(const std::string& path) {
    if (::unlink(path.c_str()) == 0) return true;
    if (errno != ENOENT && error.empty()) error = path + ": " + std::strerror(errno);
    return false;
  }
  /// A chunk's file and what lies quarantined beside it.
  void remove_chunk(const std::string& path) {
    if (remove(path)) ++chunks;
    (void)remove(path + ".quarantined");
  }
};

/// "<hash hex><salt hex>.bin", with or without ".quarantined" behind it. Not a store's temporary file: the
/// store would fail.
bool is_of_tenant(const std::string& name, const std::string& salt_hex) {
  const auto end = name.find(".bin");
  if (end == std::string::npos || (name.size() != end + 4 && !name.ends_with(".bin.quarantined"))) return false;
  return end > salt_hex.size() &&
         name.compare(end - salt_hex.size(), salt_hex.size(), salt_hex) == 0;
}

std::string hex_of(std::uint64_t salt) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (int shift = 60; shift >= 0; shift -= 4) hex.push_back(kDigits[(salt >> shift) & 15U]);
  return hex;
}

template <class Stopped>
void remove_tenant(const std::string& chunk_dir, std::uint64_t salt,
                   const FsForgetter::Removed& removed, Removal& removal, Stopped stopped) {
  namespace fs = std::filesystem;
  const std::string salt_hex = hex_of(salt);
  std::error_code error;
  fs::recursive_directory_iterator at(chunk_dir, error), end;
  for (; !error && at != end && !stopped(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_of_tenant(name, salt_hex)) continue;
    const bool is_chunk = name.ends_with(".bin");
    if (!removal.remove(at->path().string())) continue;
    if (is_chunk) ++removal.chunks;
    if (!removed) continue;
    const std::string group_dir = at->path().parent_path().filename().string();
    if (const auto parsed = parse_chunk_name(group_dir, name)) removed(parsed->key);
  }
  if (error && error != std::errc::no_such_file_or_directory && removal.error.empty())
    removal.error = chunk_dir + ": " + error.message();
}

}  // namespace

FsForgetter::~FsForgetter() { stop(kDestructionPatience); }

bool FsForgetter::take(Work work) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping || state_->waiting.size() >= kWaitingMax) return false;
    state_->waiting.push_back(std::move(work));
  }
  if (!thread_.joinable()) thread_ = std::thread([state = state_] { run(state); });
  state_->changed.notify_all();
  return true;
}

bool FsForgetter::stop(Duration patience) {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->waiting.clear();
  state_->changed.notify_all();
  if (!thread_.joinable()) return true;
  const bool ended = state_->changed.wait_for(lock, patience, [this] { return state_->ended; });
  lock.unlock();
  if (ended) thread_.join();
  else thread_.detach();
  return ended;
}

void FsForgetter::run(const std::shared_ptr<State>& state) {
  const auto stopped = [&] {
    const std::lock_guard lock(state->mutex);
    return state->stopping;
  };
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    if (state->waiting.empty()) {
      state->changed.wait(lock);
      continue;
    }
    const Work work = std::move(state->waiting.front());
    state->waiting.pop_front();
    lock.unlock();
    Removal removal;
    if (work.salt)
      remove_tenant(work.mapper.chunk_dir(), *work.salt, work.removed, removal, stopped);
    std::string path;
    for (const OffloadKey& key : work.keys) {
      if (stopped()) break;
      work.mapper.path_of(key, path);
      removal.remove_chunk(path);
      if (work.removed) work.removed(key);
    }
    const bool cut = stopped();
    if (!cut) state->sink->forgot(work.id, removal.chunks, std::move(removal.error));
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace kv_offload
