#include "runtime/entry_index.h"

#include <algorithm>
#include <ranges>

#include "runtime/cache.h"

namespace pellucid::runtime {
namespace {

guards::Discriminant::Case case_of(const Entry& entry) noexcept { return {entry.guards.get(), &entry.tells}; }

}  // namespace

std::unique_ptr<EntryIndex> EntryIndex::over(const Entries& entries) {
  std::vector<guards::Discriminant::Case> cases;
  for (const auto& entry : entries) cases.push_back(case_of(*entry));
  auto discriminant = guards::Discriminant::of(cases);
  if (discriminant == nullptr) return nullptr;
  return std::unique_ptr<EntryIndex>(new EntryIndex(std::move(discriminant), entries));
}

EntryIndex::EntryIndex(std::unique_ptr<guards::Discriminant> discriminant, const Entries& entries)
    : discriminant_(std::move(discriminant)) {
  for (const auto& entry : entries) {
    const auto key = discriminant_->key_of(case_of(*entry));
    (key ? by_key_[*key] : others_).push_back(entry.get());
  }
  for (const auto& entry : std::views::reverse(entries)) entry->used = ++uses_;
}

bool EntryIndex::is_newer(const Entry& a, const Entry& b) noexcept { return a.used > b.used; }

void EntryIndex::note_use(List& list, std::size_t at) noexcept {
  list[at]->used = ++uses_;
  const auto place = list.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(list.begin(), place, place + 1);
}

void EntryIndex::note_use(Entry& entry) noexcept {
  const auto note = [&](List& list) {
    const auto found = std::ranges::find(list, &entry);
    if (found == list.end()) return false;
    note_use(list, static_cast<std::size_t>(found - list.begin()));
    return true;
  };
  if (note(others_)) return;
  for (auto& [key, list] : by_key_) {
    if (note(list)) return;
  }
}

}  // namespace pellucid::runtime
