// Many entries of one cache by the value that tells them apart: which of them a call can fit is read off that value,
// and only these are asked. It finds what trying all of them would find, the one used last first.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "guards/discriminant.h"

namespace pellucid::runtime {

struct Entry;

class EntryIndex {
 public:
  using Entries = std::vector<std::shared_ptr<Entry>>;

  // The one used last first; null where nothing tells them apart. It goes when one of them does.
  static std::unique_ptr<EntryIndex> over(const Entries& entries);

  struct Found {
    bool is_known = false;  // else it cannot be told which may fit, and none was asked
    Entry* entry = nullptr;
  };
  // `fits` is asked of an entry, and whether that is the only one that may fit.
  template <class Fits>
  Found find(PyObject* const* locals, PyObject* closure, Fits&& fits) noexcept {
    const auto reading = discriminant_->read(locals, closure);
    if (reading.kind == guards::Discriminant::Reading::Unknown) return {};
    const auto keyed = reading.kind == guards::Discriminant::Reading::Known ? by_key_.find(reading.key) : by_key_.end();
    List none;
    List& same = keyed == by_key_.end() ? none : keyed->second;
    const bool is_only = same.size() + others_.size() == 1;
    for (std::size_t i = 0, j = 0; i < same.size() || j < others_.size();) {
      const bool is_same = j == others_.size() || (i < same.size() && is_newer(*same[i], *others_[j]));
      List& list = is_same ? same : others_;
      const std::size_t at = is_same ? i++ : j++;
      if (!fits(*list[at], is_only)) continue;
      Entry* entry = list[at];
      note_use(list, at);
      return {true, entry};
    }
    return {true, nullptr};
  }
  // This one was found by trying all of them.
  void note_use(Entry& entry) noexcept;

 private:
  using List = std::vector<Entry*>;  // the one used last first

  EntryIndex(std::unique_ptr<guards::Discriminant> discriminant, const Entries& entries);
  static bool is_newer(const Entry& a, const Entry& b) noexcept;
  void note_use(List& list, std::size_t at) noexcept;

  std::unique_ptr<guards::Discriminant> discriminant_;
  std::unordered_map<guards::Discriminant::Key, List> by_key_;
  List others_;  // those that any value may fit
  std::uint64_t uses_ = 0;
};

}  // namespace pellucid::runtime
