// Runs a fuzz target without clang: fuzz_<target> CORPUS_DIR EXECUTIONS [SEED]
// First every file of the folder as it is, then so many damaged texts. Execution i is made of SEED + i alone, so the
// line that a failure prints repeats it. With clang, -fsanitize=fuzzer takes this file's place.
#include "kv_offload/tests/fuzz/mutator.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// There where a sanitizer is.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fuzz = kv_offload::fuzz;

/// What to say if the program dies now. Written to before each execution, read by a signal handler.
char last_words[512] = "";

void say_last_words() {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, last_words, std::strlen(last_words));
}
void die(int signal) {
  say_last_words();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::optional<std::uint64_t> number(const char* text) {
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc{} && at == end ? std::optional(value) : std::nullopt;
}

void run(const std::string& text) {
  // A copy of just its size: a sanitizer sees the first byte that is read behind it.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> run_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    std::snprintf(last_words, sizeof(last_words), "while running %s\n", path.c_str());
    run(corpus.back());
  }
  return corpus;
}

int fuzz_all(const std::string& program, const std::string& folder, std::uint64_t executions,
             std::uint64_t seed) {
  std::printf("%s: seed %" PRIu64 "\n", program.c_str(), seed);
  std::fflush(stdout);
  const std::vector<std::string> corpus = run_corpus(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no files\n", folder.c_str());
    return 2;
  }
  const fuzz::Mutator mutator(corpus);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t num_bytes = 0;
  for (std::uint64_t i = 0; i < executions; ++i) {
    std::snprintf(last_words, sizeof(last_words), "again: %s %s 1 %" PRIu64 "\n", program.c_str(),
                  folder.c_str(), seed + i);
    const std::string text = mutator.text(seed + i);
    num_bytes += text.size();
    run(text);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%zu files, %" PRIu64 " executions, %" PRIu64 " bytes, %.1f s\n", corpus.size(),
              executions, num_bytes, took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto executions = argc >= 3 ? number(argv[2]) : std::nullopt;
  const auto seed = argc >= 4 ? number(argv[3]) : std::random_device{}();
  if (argc < 3 || argc > 4 || !executions || !seed) {
    std::fprintf(stderr, "usage: %s CORPUS_DIR EXECUTIONS [SEED]\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, die);
  if (__sanitizer_set_death_callback != nullptr)
    __sanitizer_set_death_callback(say_last_words);
  else
    std::signal(SIGSEGV, die);
  return fuzz_all(argv[0], argv[1], *executions, *seed);
}
