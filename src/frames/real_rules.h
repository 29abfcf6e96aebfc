// Rows of real_step that need more than a line, one file per group. What the interpreter does at the same opcode, error
// messages included.
#pragma once
#include "frames/real_step.h"

namespace pellucid::frames {

// real_build.cpp: containers, unpacking, text
bool build_set(Step& step) noexcept;
bool build_map(Step& step) noexcept;
bool set_add(Step& step) noexcept;
bool map_add(Step& step) noexcept;
bool list_extend(Step& step) noexcept;
bool set_update(Step& step) noexcept;
bool dict_update(Step& step) noexcept;
bool dict_merge(Step& step) noexcept;
bool unpack_sequence(Step& step) noexcept;
bool unpack_ex(Step& step) noexcept;
bool format_value(Step& step) noexcept;

// real_names.cpp: names, imports, classes, with blocks
bool load_global(Step& step) noexcept;
bool store_global(Step& step) noexcept;
bool delete_global(Step& step) noexcept;
bool import_name(Step& step) noexcept;
bool import_from(Step& step) noexcept;
bool load_build_class(Step& step) noexcept;
bool before_with(Step& step) noexcept;

// real_raise.cpp
bool raise_varargs(Step& step) noexcept;
bool with_except_start(Step& step) noexcept;
bool get_yield_from_iter(Step& step) noexcept;
bool send(Step& step) noexcept;

// real_match.cpp
bool get_len(Step& step) noexcept;
bool match_keys(Step& step) noexcept;
bool match_class(Step& step) noexcept;

}  // namespace pellucid::frames
