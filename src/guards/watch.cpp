#include "guards/watch.h"

#include <algorithm>

#include "py/cpython.h"

namespace pellucid::guards {
namespace {

constexpr std::size_t kLevels = 256;
constexpr std::uint8_t kDeepest = 250;  // what hangs below runs as ops
constexpr std::uint32_t kSmallLoad = 8;
constexpr std::uint8_t kMostFailures = 6;

const std::uint64_t* word_at(const void* address) noexcept { return static_cast<const std::uint64_t*>(address); }

bool is_load(Op op) noexcept { return op <= Op::LoadStep; }
bool is_restless(const Hot& hot) noexcept { return hot.moves == Hot::kRestless; }
bool is_group(Op op) noexcept { return op == Op::Group || op == Op::CheckedGroup || op == Op::Attributes; }

}  // namespace

// Each with its level, in the order of the ops.
struct Watch::Draft {
  template <class Part>
  using Leveled = std::vector<std::pair<int, Part>>;
  Leveled<Word> words;
  Leveled<Tensor> tensors;
  Leveled<Tag> tags;
  Leveled<Range> ranges;

  void add_word(int level, const void* where, std::uint64_t expected) {
    words.push_back({level, {word_at(where), expected}});
  }
  void add_range(int level, std::uint32_t begin, std::uint32_t end, bool is_load) {
    if (!is_load && !ranges.empty()) {
      auto& [last_level, last] = ranges.back();
      if (last_level == level && !last.is_load && last.end == begin) {
        last.end = end;
        return;
      }
    }
    ranges.push_back({level, {begin, end, is_load}});
  }
  // Words that prove a group; false: nothing proves it now.
  bool add_group(const Hot& hot) {
    if (hot.payload == 0) return false;
    PyObject* dict = hot.value;
    int level = hot.level + 1;
    if (hot.op == Op::Attributes) {
      PyObject* const* place = hot.is_certain ? py::instance_dict_place(hot.value) : nullptr;
      if (place == nullptr || *place == nullptr) return false;
      dict = *place;
      add_word(hot.level, place, reinterpret_cast<std::uint64_t>(dict));
    } else if (hot.op == Op::CheckedGroup) {
      return false;
    }
    add_word(level, py::dict_version_place(dict), hot.payload);
    return true;
  }
  bool add_tag(const Hot& hot) {
    if (!hot.is_certain || !PyType_Check(hot.value) || hot.payload == 0 || is_restless(hot)) return false;
    tags.push_back({hot.level, {reinterpret_cast<PyTypeObject*>(hot.value), static_cast<std::uint32_t>(hot.payload)}});
    return true;
  }
  bool add_function(const Hot& hot) {
    if (!hot.is_certain || !has_parts(*reinterpret_cast<const Check*>(hot.payload), hot.value)) return false;
    const auto* function = reinterpret_cast<PyFunctionObject*>(hot.value);
    for (PyObject* const* part : {&function->func_code, &function->func_defaults, &function->func_kwdefaults})
      add_word(hot.level, part, reinterpret_cast<std::uint64_t>(*part));
    return true;
  }
  // Gives where to go on.
  std::uint32_t add(const std::vector<Hot>& ops, std::uint32_t at);
};

std::uint32_t Watch::Draft::add(const std::vector<Hot>& ops, std::uint32_t at) {
  const Hot& hot = ops[at];
  const std::uint32_t next = at + 1;
  if (is_load(hot.op)) {
    const bool whole = hot.skip - at <= kSmallLoad || hot.level >= kDeepest || hot.payload == 0 || is_restless(hot);
    add_range(std::max(hot.level - 1, 0), at, whole ? hot.skip : next, !whole);
    return whole ? hot.skip : next;
  }
  if (is_group(hot.op)) {
    if (hot.level < kDeepest && !is_restless(hot) && add_group(hot)) return next;
    add_range(hot.level, at, hot.skip, false);
    return hot.skip;
  }
  switch (hot.op) {
    case Op::Type:
      add_word(hot.level, &hot.value->ob_type, hot.payload);
      break;
    case Op::DictSize:
      add_word(hot.level + 1, &reinterpret_cast<PyDictObject*>(hot.value)->ma_used, hot.payload);
      break;
    case Op::TypeTag:
      if (add_tag(hot)) break;
      add_range(hot.level, at, next, false);
      break;
    case Op::Function:
      if (add_function(hot)) break;
      add_range(hot.level, at, next, false);
      break;
    case Op::Tensor:
      tensors.push_back({hot.level, {reinterpret_cast<const aten::TensorSpec*>(hot.payload), hot.value}});
      break;
    default:
      add_range(hot.level, at, next, false);
  }
  return next;
}

// By level, and for each level where it ends.
template <class Part>
void Watch::take(std::vector<std::pair<int, Part>>& from, std::vector<Part>& to, std::uint32_t Level::*end) {
  std::ranges::stable_sort(from, {}, &std::pair<int, Part>::first);
  to.clear();
  for (auto& [level, part] : from) {
    to.push_back(part);
    levels_[static_cast<std::size_t>(level)].*end = static_cast<std::uint32_t>(to.size());
  }
  std::uint32_t last = 0;
  for (Level& level : levels_) last = level.*end = std::max(last, level.*end);
}

void Watch::make(const std::vector<Hot>& hot, std::uint32_t begin, std::uint32_t end) noexcept {
  made_ = false;
  try {
    Draft draft;
    for (std::uint32_t at = begin; at < end;) at = draft.add(hot, at);
    levels_.assign(kLevels, {});
    take(draft.words, words_, &Level::words);
    take(draft.tensors, tensors_, &Level::tensors);
    take(draft.tags, tags_, &Level::tags);
    take(draft.ranges, ranges_, &Level::ranges);
    levels_.erase(std::unique(levels_.begin(), levels_.end()), levels_.end());
    made_ = true;
  } catch (const std::bad_alloc&) {  // the ops do without
  }
}

bool Watch::is_due() noexcept {
  if (pause_ == 0) return true;
  --pause_;
  return false;
}

void Watch::note(bool used) noexcept {
  failures_ = used ? 0 : static_cast<std::uint8_t>(std::min<int>(failures_ + 1, kMostFailures));
  if (!used) pause_ = static_cast<std::uint8_t>((1U << failures_) - 1);
}

}  // namespace pellucid::guards
