#ifndef KV_OFFLOAD_ACTORS_C_API_KV_OFFLOAD_H
#define KV_OFFLOAD_ACTORS_C_API_KV_OFFLOAD_H

/* The engine for C and for languages that call C (C99; README.md beside this file has the rules in full).
 *
 * - Every call answers a kvo_code; 0 is success. kvo_error_text() says in one line what was wrong.
 * - Every call may be made from any thread, but not from inside a callback (KVO_IN_CALLBACK), except where it
 *   says "does not wait". No exception leaves the library.
 * - Every struct but kvo_key begins with struct_size: set it to sizeof, the rest to zero, then what you mean. Zero
 *   is every field's default, NULL in place of options means all defaults, NULL in place of an answer means that
 *   you do not want it.
 * - In a child that was forked while the engine ran every call answers KVO_FORKED at once.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(KVO_API)
#define KVO_API __attribute__((visibility("default")))
#elif !defined(KVO_API)
#define KVO_API
#endif

/* Grows when something is added; a library of a higher number serves programs of a lower one. What breaks
 * programs changes the name of the shared library (libkv_offload.so.0) instead. */
#define KVO_ABI_VERSION 3u /* 2: events, rows, copies by workers, prefetch, priorities; 3: domains */
KVO_API uint32_t kvo_abi_version(void); /* of the library that is loaded */
KVO_API const char* kvo_version(void);  /* of its release, "0.1.0" */

typedef enum kvo_code {
  KVO_OK = 0,
  KVO_INVALID_ARGUMENT = 1,  /* the call is malformed: NULL, a key too long, a wrong struct_size */
  KVO_INVALID_CONFIG = 2,    /* found before anything starts */
  KVO_DUPLICATE_REQUEST = 3, /* a live request has this id */
  KVO_UNKNOWN_REQUEST = 4,   /* never announced, finished, or from before a reset */
  KVO_UNKNOWN_LEASE = 5,     /* never granted, or completed */
  KVO_NO_SPACE = 6,          /* no slots now; nothing changed, ask again later */
  KVO_BUSY = 7,              /* calls_max calls are outstanding */
  KVO_ABORTED = 8,           /* the request was aborted while the call waited */
  KVO_DEADLINE = 9,          /* the wait ended by its configured deadline */
  KVO_RESETTING = 10,
  KVO_SHUTTING_DOWN = 11, /* shutdown or destroy has begun */
  KVO_EXPIRED = 12,
  KVO_ENGINE_FAILED = 13, /* a part of the engine died; only a new engine helps */
  KVO_IO_ERROR = 14,      /* the operating system refused, errno in the text */
  KVO_UNSUPPORTED = 15,   /* this machine or this library cannot */
  KVO_OUT_OF_MEMORY = 16,
  KVO_INTERNAL = 17,    /* an exception that should not be; its text is in the error text */
  KVO_FORKED = 18,      /* the engine belongs to the parent process */
  KVO_IN_CALLBACK = 19, /* this call waits, and a callback must not */
  KVO_UNCLEAN = 20      /* ended, but a stuck device kept a thread: its memory was leaked on purpose */
} kvo_code;
KVO_API const char* kvo_code_name(int code); /* "no_space"; "unknown" for numbers of a later library */
/* What went wrong in the last call of this thread that did not answer KVO_OK. Never NULL; valid until this
 * thread's next failing call. */
KVO_API const char* kvo_error_text(void);

/* ---- the engine ------------------------------------------------------------------------------------------- */

typedef struct kvo_engine kvo_engine;
typedef uint64_t kvo_request; /* a live request; 0 is none */
typedef uint64_t kvo_lease;   /* a pin between prepare and complete; 0 is none */

typedef enum kvo_log_level {
  KVO_LOG_DEBUG = 0,
  KVO_LOG_INFO = 1,
  KVO_LOG_WARN = 2,
  KVO_LOG_ERROR = 3
} kvo_log_level;
/* One line, without its end. Called from any thread of the engine, one call at a time per engine, from before
 * kvo_start returns until kvo_destroy does, never after. Must not block; `line` is valid during the call. */
typedef void (*kvo_log_callback)(void* user, kvo_log_level level, const char* line);

typedef struct kvo_start_options {
  size_t struct_size;
  const char* config_json; /* the configuration document, or */
  const char* config_file; /* the file it is in */
  kvo_log_callback log;    /* takes every line that the document's log_level lets through; NULL: standard error */
  void* log_user;
} kvo_start_options;

/* Validates, allocates the primary tier, starts tiers and threads. On error *engine is NULL and nothing is left. */
KVO_API int kvo_start(const kvo_start_options* options, kvo_engine** engine);
/* Ends the engine in order, within patience_ms (0: as configured). Calls answer KVO_SHUTTING_DOWN from then on;
 * `engine` stays valid until kvo_destroy. May be called again. */
KVO_API int kvo_shutdown(kvo_engine* engine, uint32_t patience_ms);
/* Shuts down if need be, waits for calls of other threads that are inside, frees. No callback runs after it
 * returns, and `engine` must not be used any more. NULL does nothing. */
KVO_API int kvo_destroy(kvo_engine* engine);

/* Facts; none waits. On a NULL engine or in a forked child: 0 or NULL. */
KVO_API uint64_t kvo_chunk_bytes(const kvo_engine* engine);
KVO_API uint32_t kvo_num_chunks(const kvo_engine* engine);
KVO_API int kvo_metrics_port(const kvo_engine* engine); /* 0: none */
/* A slot's bytes, for the holder of its lease: chunk_bytes long, page-aligned, there until shutdown. NULL for a
 * number that is no slot, and after shutdown. */
KVO_API void* kvo_chunk(const kvo_engine* engine, uint32_t chunk_id);
/* KVO_OK, or KVO_ENGINE_FAILED with the name of the failed state as error text. Does not wait. */
KVO_API int kvo_failed_state(const kvo_engine* engine);

/* All counters as one JSON object; *text is to be freed with kvo_free_text. */
KVO_API int kvo_stats_json(kvo_engine* engine, char** text);
KVO_API void kvo_free_text(char* text);

KVO_API int kvo_drain(kvo_engine* engine); /* waits until no job is active, or KVO_DEADLINE */
KVO_API int kvo_reset(kvo_engine* engine); /* forgets the primary tier; secondary tiers keep their chunks */
KVO_API int kvo_set_revision(kvo_engine* engine, const char* revision); /* older chunks become unreachable */

/* ---- keys ------------------------------------------------------------------------------------------------- */

/* Names one chunk: the hash of the chunk and everything before it, and its cache group. The bytes stay where
 * they are; the engine reads them during the call. This struct is an array's element: it never grows. */
typedef struct kvo_key {
  const void* hash;
  uint32_t hash_size; /* 1 to 64 */
  uint32_t group;
} kvo_key;

typedef struct kvo_forget_summary {
  size_t struct_size;
  uint64_t primary_chunks;
  uint64_t tier_chunks;         /* all secondary tiers together */
  uint32_t tiers_not_forgotten; /* tiers that could not; the log says why */
} kvo_forget_summary;
/* Removes these chunks (of the tenant, if not NULL) from every tier, also while they are in use. */
KVO_API int kvo_forget(kvo_engine* engine, const kvo_key* keys, size_t num_keys, const char* tenant,
                       kvo_forget_summary* summary);
KVO_API int kvo_forget_tenant(kvo_engine* engine, const char* tenant, kvo_forget_summary* summary);

/* ---- requests --------------------------------------------------------------------------------------------- */

typedef struct kvo_request_options {
  size_t struct_size;
  const char* req_id;             /* unique among its domain's live requests; required */
  uint64_t prompt_tokens;         /* feeds the admission gates; 0: unknown */
  const char* tenant;             /* chunks of different tenants never meet; NULL: none */
  const char* kv_transfer_params; /* the client's JSON object as it came: which tiers, how many tokens; NULL: none */
  /* since ABI 2 */
  int64_t priority; /* higher goes first where slots are short; 32 bits of it */
  /* since ABI 3 */
  uint64_t domain; /* 1 + the NUMA domain that serves it, that of its device; 0: of the calling processor */
} kvo_request_options;

typedef enum kvo_offload_policy {
  KVO_CHUNK_LEVEL = 0,  /* offer newly computed chunks to kvo_prepare_store */
  KVO_REQUEST_LEVEL = 1 /* offer every chunk, prefix hits too: a tier wants the request whole */
} kvo_offload_policy;

typedef struct kvo_request_summary {
  size_t struct_size;
  uint64_t looked_up_chunks, hit_chunks, promoted_chunks, promoted_bytes;
  uint64_t stored_chunks;   /* device to primary */
  uint64_t loaded_chunks;   /* primary to device */
  uint64_t cascaded_chunks; /* admitted to secondary tiers, each tier counted */
  uint64_t refused_chunks;  /* refused by admission, each tier counted */
} kvo_request_summary;

/* Announces a request; mandatory before its other calls. `policy` (may be NULL) gets a kvo_offload_policy. */
KVO_API int kvo_new_request(kvo_engine* engine, const kvo_request_options* options, kvo_request* request,
                            int* policy);
/* The device allocated the request with device_tokens already there. */
KVO_API int kvo_allocated(kvo_engine* engine, kvo_request request, uint64_t device_tokens);
/* Recency hint. */
KVO_API int kvo_touch(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys);
/* Ends the request's waits now: its open lookups answer KVO_ABORTED. Leases stay valid. Accepted during shutdown. */
KVO_API int kvo_abort(kvo_engine* engine, kvo_request request);
/* No more lookup or prepare will follow; open leases may still be completed. Accepted during shutdown. */
KVO_API int kvo_request_finished(kvo_engine* engine, kvo_request request, kvo_request_summary* summary);

/* ---- lookup ----------------------------------------------------------------------------------------------- */

typedef enum kvo_result {
  KVO_MISS = 0,
  KVO_HIT = 1,
  KVO_HIT_PENDING = 2, /* there, and being written: counts as a hit */
  KVO_RETRY = 3        /* only for KVO_WAIT_POLLED: ask again in the next step */
} kvo_result;

enum kvo_lookup_flags {
  KVO_SCAN_WINDOW = 1u,   /* every key on its own; default: in prefix order, up to the first miss */
  KVO_WAIT_RESOLVED = 2u, /* answer when the tiers have spoken; default: when what they hold has landed */
  KVO_WAIT_POLLED = 4u,   /* answer at once, from memory; see kvo_step_begin */
  KVO_NO_HOLD = 8u        /* do not hold hits until kvo_prepare_load */
};

typedef struct kvo_lookup_options {
  size_t struct_size;
  uint32_t flags;         /* of kvo_lookup_flags */
  uint32_t reserved;      /* 0 */
  uint64_t device_tokens; /* of this prompt, that the device has already */
  uint64_t first_token;   /* where the first key's chunk begins in the prompt */
  /* since ABI 2 */
  uint64_t give_up_ms; /* answer with what has landed by then; 0 or too much: the engine's deadline */
} kvo_lookup_options;

typedef struct kvo_lookup_answer {
  size_t struct_size;
  uint32_t leading_hits; /* keys from the front that are there, the device's own included */
  uint32_t primary_hits; /* of those beyond the device's: found in the primary tier, */
  uint32_t tier_hits;    /* and in secondary tiers */
  uint32_t promoted;     /* chunks that this call had loaded */
  uint32_t unheld;       /* hits reported without a hold: the share for holds was used up */
  uint32_t truncated;    /* tier hits beyond what the primary tier could grant */
  uint32_t refused;      /* tier hits that admission refused */
  uint32_t capped;       /* keys not asked: beyond the request's limit */
  uint32_t gave_up;      /* keys whose wait ended by deadline or a full table */
  uint32_t worth_chunks; /* leading chunks that are sooner loaded than computed */
  double load_s;         /* what loading the leading hits is expected to take, */
  double compute_s;      /* and computing them; 0: not configured */
} kvo_lookup_answer;

/* Finds the keys, starts loads of what secondary tiers hold, and waits. `results` (may be NULL) gets num_keys bytes,
 * each a kvo_result. */
KVO_API int kvo_lookup(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys,
                       const kvo_lookup_options* options, kvo_lookup_answer* answer, uint8_t* results);

/* `code` is a kvo_code. On KVO_OK answer and results (num_keys of them) are valid during the call, else NULL and
 * `error` says why. Runs on a thread of the engine, or inside kvo_lookup_async. Must not block. */
typedef void (*kvo_lookup_callback)(void* user, int code, const char* error, const kvo_lookup_answer* answer,
                                    const uint8_t* results, size_t num_keys);
/* Does not wait. KVO_OK: the callback runs exactly once, before kvo_destroy returns. Else it never runs. */
KVO_API int kvo_lookup_async(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys,
                             const kvo_lookup_options* options, kvo_lookup_callback callback, void* user);

/* When a prefetch answers; its loads go on in any case. Since ABI 2. */
typedef enum kvo_prefetch_mode {
  KVO_PREFETCH_BEST_EFFORT = 0, /* when the loads are submitted */
  KVO_PREFETCH_COMPLETE = 1,    /* when all have landed or failed */
  KVO_PREFETCH_TIMEOUT = 2      /* as complete, but after timeout_ms with what has landed by then */
} kvo_prefetch_mode;
typedef struct kvo_prefetch_options {
  size_t struct_size;
  uint32_t mode;          /* a kvo_prefetch_mode */
  uint32_t flags;         /* KVO_NO_HOLD or 0 */
  uint64_t timeout_ms;    /* of KVO_PREFETCH_TIMEOUT alone, and there more than 0 */
  uint64_t device_tokens; /* as in kvo_lookup_options */
  uint64_t first_token;
} kvo_prefetch_options;
/* Starts loads of what secondary tiers hold for a request that will want them later. Answers as kvo_lookup does. */
KVO_API int kvo_prefetch(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys,
                         const kvo_prefetch_options* options, kvo_lookup_answer* answer);

/* ---- device to primary ------------------------------------------------------------------------------------ */

enum kvo_store_flags { KVO_HAS_FIRST_TOKEN = 1u };
typedef struct kvo_store_options {
  size_t struct_size;
  uint32_t flags; /* of kvo_store_flags */
  uint32_t reserved;
  uint64_t first_token; /* where the first key's chunk begins; read with KVO_HAS_FIRST_TOKEN */
} kvo_store_options;

typedef struct kvo_store_plan {
  size_t struct_size;
  kvo_lease lease;     /* to be completed, also where num_chunks is 0 */
  uint32_t num_chunks; /* to copy: key_idx[i] of the call goes to slot chunk_ids[i] */
  uint32_t evicted;    /* chunks that made room */
  uint32_t capped;     /* keys left out by the request's limit */
} kvo_store_plan;
/* Reserves a slot for each key that is not there; all or KVO_NO_SPACE. key_idx and chunk_ids have room for
 * num_keys numbers each. */
KVO_API int kvo_prepare_store(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys,
                              const kvo_store_options* options, kvo_store_plan* plan, uint32_t* key_idx,
                              uint32_t* chunk_ids);

enum kvo_complete_flags {
  KVO_STORE_FAILED = 1u, /* the bytes did not come: drop the slots */
  KVO_WAIT_CASCADES = 2u /* answer when every admitted tier has ended its part */
};
typedef struct kvo_store_outcome {
  size_t struct_size;
  uint32_t published;
  uint32_t cascades_admitted, cascades_refused; /* jobs, one per tier */
  uint32_t chunks_stored, chunks_failed;        /* in secondary tiers; final with KVO_WAIT_CASCADES */
} kvo_store_outcome;
/* Publishes what was reserved and offers it to every secondary tier. Accepted during shutdown. */
KVO_API int kvo_complete_store(kvo_engine* engine, kvo_lease lease, uint32_t flags, kvo_store_outcome* outcome);

/* ---- primary to device ------------------------------------------------------------------------------------ */

typedef struct kvo_load_plan {
  size_t struct_size;
  kvo_lease lease;
  uint32_t num_chunks; /* of the leading keys, in order */
} kvo_load_plan;
/* Pins the leading keys that are still there. chunk_ids has room for num_keys numbers. */
KVO_API int kvo_prepare_load(kvo_engine* engine, kvo_request request, const kvo_key* keys, size_t num_keys,
                             kvo_load_plan* plan, uint32_t* chunk_ids);
KVO_API int kvo_complete_load(kvo_engine* engine, kvo_lease lease); /* accepted during shutdown */

/* ---- step-driven embedders -------------------------------------------------------------------------------- */

/* Around the lookups of a scheduler step that uses KVO_WAIT_POLLED; both answer when all results that came before
 * are applied. The end of a step submits the loads that it found. */
KVO_API int kvo_step_begin(kvo_engine* engine);
KVO_API int kvo_step_end(kvo_engine* engine, const kvo_request* new_requests, size_t num_new,
                         const kvo_request* preempted_requests, size_t num_preempted);
/* *pending becomes 1 where steps are worth taking although no request is scheduled, else 0. */
KVO_API int kvo_has_pending_work(kvo_engine* engine, int* pending);

/* ---- events ----------------------------------------------------------------------------------------------- */

typedef struct kvo_event {
  size_t struct_size;
  int removed; /* 0: the keys entered a tier; 1: they left it */
  int reserved;
  const char* medium;        /* "CPU", "STORAGE", ...; NULL: not said */
  const char* locality;      /* "LOCAL", "REMOTE"; NULL: not said */
  const kvo_key* keys;       /* num_keys of them */
  const uint32_t* chunk_ids; /* their slots, of the primary tier alone; else NULL */
  size_t num_keys;
} kvo_event;
/* Valid during the call. Must not call the engine. */
typedef void (*kvo_event_callback)(void* user, const kvo_event* event);
/* Hands over what has happened since the last call, oldest first, on this thread; with enable_kv_events in the
 * configuration. */
KVO_API int kvo_take_events(kvo_engine* engine, kvo_event_callback callback, void* user);

/* ---- copies: rows for a device of this process -------------------------------------------------------------- */

typedef struct kvo_rows {
  size_t struct_size;
  void* base;             /* page-aligned; row i begins at base + i * row_bytes */
  uint64_t row_bytes;     /* chunk_bytes rounded up to pages */
  uint64_t chunk_bytes;
  uint64_t num_rows;
} kvo_rows;
/* The primary tier's memory, to register it with a device. There until shutdown; does not wait. Rows may be touched by
 * the holder of their lease alone. */
KVO_API int kvo_region(const kvo_engine* engine, kvo_rows* rows);

/* ---- copies: by worker processes ---------------------------------------------------------------------------- */

/* Device blocks of a transfer, cache group after cache group. */
typedef struct kvo_blocks {
  size_t struct_size;
  const uint32_t* block_ids;    /* all groups behind each other */
  size_t num_blocks;
  const uint32_t* group_sizes;  /* blocks of each group; their sum is num_blocks */
  const uint32_t* first_blocks; /* index of each group's first block in the request */
  size_t num_groups;
} kvo_blocks;

enum kvo_copy_flags {
  KVO_COPY_WAIT_CASCADES = 1u, /* kvo_store_blocks: answer when every admitted tier has ended its part */
  KVO_COPY_TOLD_JOB = 2u       /* the caller tells the workers itself, by kvo_worker_submit with told_job as id */
};
typedef struct kvo_copy_options {
  size_t struct_size;
  uint32_t flags; /* of kvo_copy_flags */
  uint32_t reserved;
  uint64_t told_job; /* below 2^63, never used before; read with KVO_COPY_TOLD_JOB */
} kvo_copy_options;

/* Every worker copies these blocks to the rows of the lease; then the lease is completed. KVO_DEADLINE, KVO_IO_ERROR: a
 * worker was too late, failed or died, and the lease ends by itself. Any other failure: nothing began. */
KVO_API int kvo_store_blocks(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks,
                             const kvo_copy_options* options, kvo_store_outcome* outcome);
/* The same towards the devices. */
KVO_API int kvo_load_blocks(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks,
                            const kvo_copy_options* options);
/* Both without waiting. KVO_OK: the callback runs exactly once, before kvo_destroy returns, with a kvo_code; `outcome` is
 * NULL for loads and failures. Must not block. */
typedef void (*kvo_copy_callback)(void* user, int code, const char* error, const kvo_store_outcome* outcome);
KVO_API int kvo_store_blocks_async(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks,
                                   const kvo_copy_options* options, kvo_copy_callback callback, void* user);
KVO_API int kvo_load_blocks_async(kvo_engine* engine, kvo_lease lease, const kvo_blocks* blocks,
                                  const kvo_copy_options* options, kvo_copy_callback callback, void* user);

/* ---- a worker process --------------------------------------------------------------------------------------- */

typedef struct kvo_worker kvo_worker;

/* Elements of arrays: these three structs never grow. */
typedef struct kvo_tensor {
  const char* name; /* for messages; NULL: none */
  void* data;       /* address on the device */
  uint64_t page_bytes, num_blocks;
} kvo_tensor;
typedef struct kvo_page_run {
  uint64_t local_offset, canonical_offset, fragment_bytes, count, local_stride, canonical_stride;
} kvo_page_run;
enum kvo_layer_flags {
  KVO_LAYER_MAPPED = 1u,  /* the fields from canonical_page_bytes on are set: canonical layout */
  KVO_LAYER_PORTABLE = 2u /* its canonical page reads the same under every parallel layout */
};
typedef struct kvo_layer {
  const char* name;    /* for messages; NULL: none */
  uint32_t group;      /* its cache group */
  uint32_t tensor;     /* index of the tensor it lies in */
  uint64_t page_bytes; /* of the tensor's page, from its beginning */
  uint32_t flags;      /* of kvo_layer_flags */
  uint32_t num_runs;
  uint64_t canonical_page_bytes;
  const kvo_page_run* runs;
  uint32_t num_writers; /* ranks with the same bytes take turns; 0 is 1 */
  uint32_t writer;
} kvo_layer;

typedef enum kvo_layout { KVO_SHARDED = 0, KVO_REPLICATED = 1, KVO_CANONICAL = 2 } kvo_layout;

/* Callbacks of a worker run on its threads, and must not block or call it. */
typedef struct kvo_copy_end {
  size_t struct_size;
  uint64_t id;
  int code; /* KVO_OK, or KVO_IO_ERROR */
  int reserved;
  const char* error; /* "" if none */
  uint64_t bytes;
  double seconds;
} kvo_copy_end;

typedef struct kvo_worker_options {
  size_t struct_size;
  const char* socket;      /* the engine's workers.socket, or */
  const char* region_file; /* its workers.region_file: then nobody but kvo_worker_submit gives orders */
  const char* engine_id;   /* checked; NULL: any */
  const char* device;      /* NULL or "host"; "cuda:0" where built with it */
  uint32_t rank, world_size, blocks_per_chunk; /* 0 is 1 for the latter two */
  uint32_t layout;                             /* a kvo_layout */
  const kvo_tensor* tensors;
  size_t num_tensors;
  const kvo_layer* layers;
  size_t num_layers;
  uint32_t join_ms; /* from start until the engine has to be there; 0: a minute */
  uint32_t reserved;
  void* user;
  /* Before the copies of an order: the event of the compute stream that they wait for (a cudaEvent_t as a number), or 0. */
  uint64_t (*before_copy)(void* user, uint64_t id, int is_load);
  void (*copied)(void* user, const kvo_copy_end* end); /* ends of jobs of kvo_worker_submit */
  void (*engine_gone)(void* user, const char* why);    /* and nothing is being copied any more */
  kvo_log_callback log;                                /* gets `user`; NULL: standard error */
} kvo_worker_options;

/* Checks what can be checked at once, and joins in the background: workers may start before their engine. */
KVO_API int kvo_worker_start(const kvo_worker_options* options, kvo_worker** worker);
/* Until it has joined and all ranks fit together; else the engine's refusal, or KVO_DEADLINE. */
KVO_API int kvo_worker_wait_ready(kvo_worker* worker, uint32_t patience_ms);
/* A job of the caller's own: `after` is an event of the compute stream, or 0. Its end is also reported to the engine; with
 * a socket `id` is below 2^63 and never used again. Refused (but for KVO_BUSY), it counts there as failed. */
KVO_API int kvo_worker_submit(kvo_worker* worker, uint64_t id, int is_load, const kvo_blocks* blocks,
                              const uint32_t* chunk_ids, size_t num_chunks, uint64_t after);
/* A told job (KVO_COPY_TOLD_JOB) that will not come from this rank: the engine's copy fails, and need not wait for it. */
KVO_API int kvo_worker_decline(kvo_worker* worker, uint64_t id, const char* why);
/* Waits for running copies, tells the engine, unmaps. KVO_UNCLEAN: a copy did not end. May be called again. */
KVO_API int kvo_worker_stop(kvo_worker* worker, uint32_t patience_ms);
/* Stops within 10 s if need be, and frees. No other call may be inside or follow. NULL does nothing. */
KVO_API int kvo_worker_destroy(kvo_worker* worker);

#ifdef __cplusplus
}
#endif

#endif
