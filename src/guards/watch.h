// A large part of a hot program while nothing moves in it: words of memory that must be what they were. They are
// compared without a branch for each, by levels: a word is read only when all words of lower levels were as before,
// which prove that the object it lies in is still there. Ops that are no word (tensors, loads, checks) run behind the
// words of their level.
//
// It never decides that a guard fails: when a word is another one, the ops themselves are asked.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "aten/aten.h"
#include "guards/check.h"
#include "guards/hot.h"
#include "py/cpython.h"

namespace pellucid::guards {

class Watch {
 public:
  static constexpr std::uint32_t kWorth = 24;  // ops

  struct Range {  // of ops
    std::uint32_t begin, end;
    bool is_load;  // a load whose value the words behind it hang on: it must be the same
  };

  bool is_made() const noexcept { return made_; }
  // From the ops [begin, end), which have just held.
  void make(const std::vector<Hot>& hot, std::uint32_t begin, std::uint32_t end) noexcept;
  void forget() noexcept { made_ = false; }

  // After it was of no use a few times, it is left alone for a while. Counts the calls that it is asked at.
  bool is_due() noexcept;
  void note(bool used) noexcept;

  // `run` runs a Range. False: something may have changed.
  template <class Run>
  bool is_unchanged(Run&& run) const noexcept {
    const Word* word = words_.data();
    const Tensor* tensor = tensors_.data();
    const Tag* tag = tags_.data();
    const Range* range = ranges_.data();
    for (const Level& level : levels_) {
      std::uint64_t differs = 0;
      const Word* const last_word = words_.data() + level.words;
#pragma GCC unroll 4
      for (; word != last_word; ++word) differs |= *word->where ^ word->expected;
      if (differs != 0) return false;
      for (const Tensor* end = tensors_.data() + level.tensors; tensor != end; ++tensor) {
        if (!tensor->spec->matches(tensor->value)) return false;
      }
      for (const Tag* end = tags_.data() + level.tags; tag != end; ++tag) {
        if (py::type_version(tag->type) != tag->expected) return false;
      }
      for (const Range* end = ranges_.data() + level.ranges; range != end; ++range) {
        if (!run(*range)) return false;
      }
    }
    return true;
  }

 private:
  struct Word {
    const std::uint64_t* where;
    std::uint64_t expected;
  };
  struct Tensor {
    const aten::TensorSpec* spec;
    PyObject* value;
  };
  struct Tag {
    PyTypeObject* type;
    std::uint32_t expected;
  };
  struct Level {  // where its part of each array ends
    std::uint32_t words = 0, tensors = 0, tags = 0, ranges = 0;
    bool operator==(const Level&) const = default;
  };
  struct Draft;  // while it is made
  template <class Part>
  void take(std::vector<std::pair<int, Part>>& from, std::vector<Part>& to, std::uint32_t Level::*end);

  std::vector<Word> words_;
  std::vector<Tensor> tensors_;
  std::vector<Tag> tags_;
  std::vector<Range> ranges_;
  std::vector<Level> levels_;
  bool made_ = false;
  std::uint8_t failures_ = 0, pause_ = 0;
};

}  // namespace pellucid::guards
