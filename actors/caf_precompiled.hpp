#pragma once

// CAF, parsed once: CMake puts it in front of every source of this room and of the tests of the actors. It alone costs
// 2.6 s and 300 MB in each of them. Nobody includes this header; headers name the CAF headers that they need.

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>
