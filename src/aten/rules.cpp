#include "aten/rules.h"

#include <string_view>
#include <unordered_map>

namespace pellucid::aten {

Rule find_rule(const std::string& name) {
  static const auto& rules = *[] {
    auto* all = new std::unordered_map<std::string_view, Rule>;
    for (const RuleTable& table :
         {copy_rules(), index_rules(), norm_rules(), nn_rules(), composite_rules(), recurrent_rules(), spectral_rules(),
          elementwise_rules(), reduce_rules(), linalg_rules(), quantising_rules()}) {
      for (std::size_t i = 0; i < table.size; ++i) all->emplace(table.rows[i].op, table.rows[i].value);
    }
    return all;
  }();
  const auto found = rules.find(name);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace pellucid::aten
