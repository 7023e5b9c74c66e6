#pragma once

#include <caf/config.hpp>
#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

namespace kv_offload {

/// The only place that knows CAF's version. `event<M>` is a handler for M that answers nothing.
#if CAF_VERSION < 1800
template <class... In>
using event = caf::reacts_to<In...>;
#else
template <class... In>
using event = caf::result<void>(In...);
#endif

}  // namespace kv_offload
