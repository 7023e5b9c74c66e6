#pragma once

/// What the shared library shows. Everything is compiled with hidden visibility; a class or function that a
/// program outside calls, and that is not inline, carries this mark. The same objects make both libraries,
/// so the mark knows no "import" form.
#define KV_OFFLOAD_EXPORT __attribute__((visibility("default")))
