// What a capture goes on with for the values of numbers that only the graph knows. Any will do, as long as nothing is
// needed of them; what is needed and not so of them is a reason to capture the region again, with others.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "region/number_history.h"
#include "symbolic/space.h"

namespace pellucid::region {

struct Region;

// The node that gives a number of the graph; null: it is not known.
const graph::Node* node_giving(Region& region, const symbolic::Expr* symbol);
// A call of the program, the same in each capture of it.
std::size_t place_of(const graph::CallSite& where);

class UnbackedHints {
 public:
  explicit UnbackedHints(Region& region) : region_(region) {}

  struct Setup {
    std::vector<std::optional<symbolic::Value>> hints;  // by the order in which the symbols come; none: the usual one
    std::vector<PathHash> closed;                       // numbers of the inputs that are constants
    std::vector<std::size_t> foreseen;                  // place_of() the calls whose numbers are computed ahead
    bool closes(PathHash path) const { return std::ranges::find(closed, path) != closed.end(); }
  };
  Setup setup;
  bool may_wish = false;                 // another setup may be asked for
  bool may_wish_again = false;           // and one more behind that
  std::optional<symbolic::Value> ahead;  // what the next symbol is known to be
  std::optional<Setup> wished;           // the region is to be captured once more, with this

  void add(const symbolic::Expr* symbol) { order_.push_back(symbol); }
  std::size_t count() const noexcept { return order_.size(); }
  symbolic::Value next(symbolic::Value usual, std::int64_t least, std::int64_t most) const;

  // Wishes for a hint of one of the symbols with which this condition holds, and those that were needed before; the
  // others keep theirs. False: there is none, or too many were tried.
  bool wish_for(const symbolic::Expr* condition, std::span<const symbolic::Expr* const> needed);
  // Wishes for the numbers of the inputs that this names to be constants. False: the program marked one to stay open.
  bool wish_closed(const symbolic::Expr* condition);
  // Wishes for what the calls give that gave these symbols to be computed ahead. False: that was tried.
  bool wish_foreseen(std::span<const symbolic::Expr* const> symbols);

 private:
  std::optional<std::int64_t> hint_for(const symbolic::Expr* symbol, const symbolic::Expr* condition,
                                       std::span<const symbolic::Expr* const> needed);
  bool add_inputs(const symbolic::Expr* expr, std::vector<PathHash>& paths) const;

  Region& region_;
  std::vector<const symbolic::Expr*> order_;
};

}  // namespace pellucid::region
