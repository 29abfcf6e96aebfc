// What is known of the expressions of one capture: where their values lie, from the ranges of the symbols and from the
// decisions so far, and which conditions that proves. Nothing here looks at a hint.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "symbolic/congruences.h"
#include "symbolic/equalities.h"
#include "symbolic/nodes.h"
#include "symbolic/range.h"

namespace pellucid::symbolic {

enum class Proof : std::uint8_t { No, Yes, Unknown };

class Facts {
 public:
  explicit Facts(Nodes& nodes) : nodes_(nodes), equalities_(nodes, congruences_) {}
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;

  void declare(const Expr* symbol, const Range& range);  // for ever
  void add(const Expr* condition);                       // it holds from now on
  void forget();                                         // all that was added

  Proof prove(const Expr* condition);
  Range range(const Expr* integer);
  const Expr* simplify(const Expr* expr) { return equalities_.simplify(expr); }

 private:
  // What was found of an expression, and when. A proof stays one until something is forgotten; what was not proved may
  // be with the next fact, and a range only gets narrower.
  struct Memo {
    std::uint32_t proved_at = 0, range_at = 0;
    Proof proof = Proof::Unknown;
    Range range;
  };

  Memo& memo(const Expr* expr);
  void note(const Expr* condition);
  void narrow(const Expr* integer, const Range& to);
  void exclude(const Expr* integer, std::int64_t number);
  void add_equality(const Expr* integer, std::int64_t number);
  void add_order(const Expr* less, const Expr* more, bool equal);
  Proof look_up(const Expr* condition);
  Proof work_out(const Expr* condition);
  Proof work_out_equality(const Expr* a, const Expr* b);
  Proof work_out_floats(const Expr* condition);
  Range computed(const Expr* integer);
  Range remainders(const Expr* mod);

  Nodes& nodes_;
  Congruences congruences_;
  Equalities equalities_;
  std::unordered_map<const Expr*, Range> declared_, known_;  // of expressions without a constant: conditions.h
  std::unordered_map<const Expr*, bool> conditions_;         // their truth
  std::unordered_map<const Expr*, std::unordered_set<std::int64_t>> excluded_;
  std::vector<Memo> memos_;  // by id
  std::uint32_t epoch_ = 1, forgotten_at_ = 0;
};

}  // namespace pellucid::symbolic
