// Copies by the engine's workers, and the rows for a device of this process.
#include "kv_offload/actors/c_api/c_api_blocks.hpp"
#include "kv_offload/actors/c_api/c_api_keys.hpp"

#include <functional>
#include <optional>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

int read_options(const kvo_copy_options* given, CopyOptions& options) {
  kvo_copy_options known;
  if (const int wrong = read_struct(given, "options", known)) return wrong;
  if (const int wrong = check_flags("options.flags", known.flags, KVO_COPY_WAIT_CASCADES | KVO_COPY_TOLD_JOB)) return wrong;
  if (known.reserved != 0) return not_allowed("options.reserved", std::to_string(known.reserved), "0");
  options.wait_cascades = (known.flags & KVO_COPY_WAIT_CASCADES) != 0;
  if ((known.flags & KVO_COPY_TOLD_JOB) != 0) options.told_job = known.told_job;
  return KVO_OK;
}

kvo_store_outcome to_c(const StoreOutcome& done) {
  kvo_store_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  outcome.published = done.published;
  outcome.cascades_admitted = done.cascades_admitted;
  outcome.cascades_refused = done.cascades_refused;
  outcome.chunks_stored = done.chunks_stored;
  outcome.chunks_failed = done.chunks_failed;
  return outcome;
}
std::optional<kvo_store_outcome> outcome_of(const StoreOutcome& done) { return to_c(done); }
std::optional<kvo_store_outcome> outcome_of(Ok) { return std::nullopt; }

template <class T>
void call_back(HostGate& gate, kvo_copy_callback callback, void* user, const Expected<T>& done) noexcept {
  const CallbackScope scope;
  try {
    if (!done) {
      callback(user, code_of(done.error().code), to_string(done.error()).c_str(), nullptr);
    } else {
      const auto outcome = outcome_of(*done);
      callback(user, KVO_OK, "", outcome ? &*outcome : nullptr);
    }
  } catch (...) {  // the callback threw: nobody is there to catch it
  }
  gate.call_ended();
}

/// Reads the arguments and begins the copy: `begin(facade, lease, blocks, options)`.
template <class Begin>
int copy(OffloadEngine& e, kvo_lease lease, const kvo_blocks* given_blocks, const kvo_copy_options* given, Begin begin) {
  BlockList blocks;
  if (const int wrong = read_blocks(given_blocks, blocks)) return wrong;
  CopyOptions options;
  if (const int wrong = read_options(given, options)) return wrong;
  return begin(e, id_of<LeaseId>(lease), std::move(blocks), options);
}

template <class T, class Begin>
int copy_async(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks, const kvo_copy_options* options,
               kvo_copy_callback callback, void* user, Begin begin) {
  return enter(engine, Waits::no, [&](OffloadEngine& facade) {
    if (callback == nullptr) return not_allowed("callback", "NULL", "a function");
    return copy(facade, lease, blocks, options, [&](OffloadEngine& e, LeaseId id, BlockList list, CopyOptions how) {
      Pending<T> pending = begin(e, id, std::move(list), how);
      std::function<void(Expected<T>)> deliver = [gate = engine->gate, callback, user](const Expected<T>& done) {
        call_back(*gate, callback, user, done);
      };
      engine->gate->call_begins();
      std::move(pending).then(std::move(deliver));
      return static_cast<int>(KVO_OK);
    });
  });
}

Pending<StoreOutcome> store(OffloadEngine& e, LeaseId lease, BlockList blocks, CopyOptions options) {
  return e.store_blocks(lease, std::move(blocks), options);
}
Pending<Ok> load(OffloadEngine& e, LeaseId lease, BlockList blocks, CopyOptions options) {
  return e.load_blocks(lease, std::move(blocks), options);
}

}  // namespace

int kvo_region(const kvo_engine* engine, kvo_rows* rows) {
  return enter(engine, Waits::no, [&](const OffloadEngine& e) {
    if (rows == nullptr) return not_allowed("rows", "NULL", "where to put the answer");
    const OutStruct<kvo_rows> out(rows, "rows");
    if (out.wrong() != KVO_OK) return out.wrong();
    if (engine->ended) return fail(KVO_SHUTTING_DOWN, "the engine was shut down, and its memory is gone");
    const PrimaryView view = e.rows();
    kvo_rows answer{};
    answer.base = view.base;
    answer.row_bytes = view.row_bytes;
    answer.chunk_bytes = view.payload_bytes;
    answer.num_rows = view.num_chunks;
    out.write(answer);
    return static_cast<int>(KVO_OK);
  });
}

int kvo_store_blocks(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks, const kvo_copy_options* options,
                     kvo_store_outcome* outcome) {
  return enter(engine, Waits::yes, [&](OffloadEngine& facade) {
    const OutStruct<kvo_store_outcome> out(outcome, "outcome");
    if (out.wrong() != KVO_OK) return out.wrong();
    return copy(facade, lease, blocks, options, [&](OffloadEngine& e, LeaseId id, BlockList list, CopyOptions how) {
      const auto done = store(e, id, std::move(list), how).get();
      if (!done) return code_of(done);
      out.write(to_c(*done));
      return static_cast<int>(KVO_OK);
    });
  });
}

int kvo_load_blocks(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks, const kvo_copy_options* options) {
  return enter(engine, Waits::yes, [&](OffloadEngine& facade) {
    return copy(facade, lease, blocks, options, [&](OffloadEngine& e, LeaseId id, BlockList list, CopyOptions how) {
      return code_of(load(e, id, std::move(list), how).get());
    });
  });
}

int kvo_store_blocks_async(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks, const kvo_copy_options* options,
                           kvo_copy_callback callback, void* user) {
  return copy_async<StoreOutcome>(engine, lease, blocks, options, callback, user, store);
}

int kvo_load_blocks_async(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks, const kvo_copy_options* options,
                          kvo_copy_callback callback, void* user) {
  return copy_async<Ok>(engine, lease, blocks, options, callback, user, load);
}
