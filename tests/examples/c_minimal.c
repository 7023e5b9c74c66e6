/* The same as minimal.cpp in C99: store, look up, load, through a file tier in a temporary directory. */
#define _XOPEN_SOURCE 700
#include "kv_offload/actors/c_api/kv_offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void to_stderr(void* user, kvo_log_level level, const char* line) {
  (void)user;
  if (level >= KVO_LOG_ERROR) fprintf(stderr, "engine: %s\n", line);
}

/* Every call answers a code; this one says which failed, and why. */
static int check(int code, const char* what) {
  if (code != KVO_OK) fprintf(stderr, "%s: %s: %s\n", what, kvo_code_name(code), kvo_error_text());
  return code == KVO_OK;
}

static int store_and_load(kvo_engine* engine) {
  static const unsigned char hash[32] = {1}; /* of the chunk and everything before it */
  const kvo_key key = {hash, sizeof hash, 0};
  kvo_request_options announced = {.struct_size = sizeof announced, .req_id = "r1", .prompt_tokens = 16};
  kvo_store_plan plan = {sizeof plan, 0, 0, 0, 0};
  kvo_lookup_answer found;
  kvo_load_plan load = {sizeof load, 0, 0};
  kvo_request request;
  uint32_t key_idx[1], chunk[1];
  size_t bytes = (size_t)kvo_chunk_bytes(engine);
  int same;

  memset(&found, 0, sizeof found);
  found.struct_size = sizeof found;
  if (!check(kvo_new_request(engine, &announced, &request, NULL), "new_request")) return 0;
  if (!check(kvo_prepare_store(engine, request, &key, 1, NULL, &plan, key_idx, chunk), "prepare_store")) return 0;
  if (plan.num_chunks == 1) memset(kvo_chunk(engine, chunk[0]), 42, bytes); /* device to slot */
  if (!check(kvo_complete_store(engine, plan.lease, KVO_WAIT_CASCADES, NULL), "complete_store")) return 0;
  if (!check(kvo_reset(engine), "reset")) return 0; /* forget the primary tier: the file is left */

  if (!check(kvo_lookup(engine, request, &key, 1, NULL, &found, NULL), "lookup")) return 0;
  if (!check(kvo_prepare_load(engine, request, &key, 1, &load, chunk), "prepare_load")) return 0;
  same = load.num_chunks == 1 && ((const unsigned char*)kvo_chunk(engine, chunk[0]))[bytes - 1] == 42;
  if (!check(kvo_complete_load(engine, load.lease), "complete_load")) return 0;
  if (!check(kvo_request_finished(engine, request, NULL), "request_finished")) return 0;
  printf("%u of 1 chunks found, %u in a secondary tier, bytes %s\n", (unsigned)found.leading_hits,
         (unsigned)found.tier_hits, same ? "right" : "WRONG");
  return same && found.tier_hits == 1;
}

int main(void) {
  char dir[] = "/tmp/kv_offload-example-XXXXXX", config[256], clean_up[64];
  kvo_start_options options = {sizeof options, NULL, NULL, to_stderr, NULL};
  kvo_engine* engine = NULL;
  int ok;

  if (mkdtemp(dir) == NULL) return 1;
  snprintf(config, sizeof config,
           "{\"chunk_bytes\": \"64KiB\", \"cpu_bytes_to_use\": \"16MiB\","
           " \"secondary_tiers\": [{\"type\": \"fs\", \"root_dir\": \"%s\"}]}", dir);
  options.config_json = config;
  if (!check(kvo_start(&options, &engine), "start")) return 2;
  ok = store_and_load(engine);
  ok = check(kvo_destroy(engine), "destroy") && ok;
  snprintf(clean_up, sizeof clean_up, "rm -rf %s", dir);
  return system(clean_up) == 0 && ok ? 0 : 1;
}
