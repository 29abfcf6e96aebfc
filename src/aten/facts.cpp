#include "aten/facts.h"

#include <algorithm>
#include <array>

namespace pellucid::aten {
namespace {

struct Row {
  std::string_view name;
  std::optional<Raises> raises;
  std::optional<Dtypes> dtypes;
  unsigned flags;
};

constexpr auto make_rows() {
  using enum Raises;
  using enum Dtypes;
  constexpr std::nullopt_t Unsaid = std::nullopt;
  constexpr auto Overwrites = static_cast<unsigned>(Fact::Overwrites);
  constexpr auto Scatters = static_cast<unsigned>(Fact::Scatters);
  constexpr auto MixesDevices = static_cast<unsigned>(Fact::MixesDevices);
  constexpr auto Reshapes = static_cast<unsigned>(Fact::Reshapes);
  constexpr auto CpuDecomposes = static_cast<unsigned>(Fact::CpuDecomposes);
  constexpr auto DispatchesByHand = static_cast<unsigned>(Fact::DispatchesByHand);
  return std::to_array<Row>({
#define OPERATOR(name, raises, dtypes, facts) {name, raises, dtypes, facts},
#include "aten/operators.def"
  });
}
constexpr auto kRows = make_rows();

constexpr bool are_sorted() {
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i - 1].name >= kRows[i].name) return false;
  }
  return true;
}
static_assert(are_sorted(), "a row of operators.def is double or not in its place");

const Row* row_of(std::string_view name) {
  const auto* found = std::lower_bound(kRows.begin(), kRows.end(), name,
                                       [](const Row& row, std::string_view wanted) { return row.name < wanted; });
  return found != kRows.end() && found->name == name ? found : nullptr;
}

// "_foreach_add_" computes what "add" does.
std::string_view plain(std::string_view base) {
  constexpr std::string_view foreach = "_foreach_";
  if (base.starts_with(foreach)) base.remove_prefix(foreach.size());
  if (base.size() > 1 && base.back() == '_' && base[base.size() - 2] != '_') base.remove_suffix(1);
  return base;
}

void add(Facts& facts, const Row* row) {
  if (row == nullptr) return;
  if (!facts.raises) facts.raises = row->raises;
  if (!facts.dtypes) facts.dtypes = row->dtypes;
  facts.flags |= row->flags;
}

}  // namespace

Facts facts_of(std::string_view name) {
  Facts facts;
  const std::string_view base = name.substr(0, name.find('.'));
  if (base != name) add(facts, row_of(name));
  add(facts, row_of(base));
  if (plain(base) != base) add(facts, row_of(plain(base)));
  return facts;
}

Raises raises_of(const Facts& facts, bool elementwise) {
  return facts.raises.value_or(elementwise ? Raises::Never : Raises::Anywhere);
}

DtypesTaken dtypes_taken(const Facts& facts, bool is_view, bool elementwise) {
  if (is_view || facts.dtypes == Dtypes::Every) return {true, true, true, true, true};
  if (facts.dtypes == Dtypes::IntegersAndBools) return {.bools = true, .integers = true, .floats = false};
  if (facts.dtypes == Dtypes::OnlyIntegers) return {.bools = false, .integers = true, .floats = false};
  return {.bools = false, .integers = facts.dtypes == Dtypes::Integers, .any_mixture = elementwise};
}

}  // namespace pellucid::aten
