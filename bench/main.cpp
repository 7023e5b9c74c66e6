#include "kv_offload/bench/command_line.hpp"
#include "kv_offload/bench/progress.hpp"

#include <iostream>

int main(int argc, char** argv) {
  kv_offload::bench::watch_interrupts();
  return kv_offload::bench::run_command_line(argc, argv, std::cout, std::cerr);
}
