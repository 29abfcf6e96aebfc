// How often one function is compiled again.
//
// A function keeps `config.recompile_limit` entries. When it has so many, calls that fit none of them run eagerly, but
// not for good: after `config.recompile_patience` such calls the entry that was used longest ago gives way to a new
// one. When the new one does not earn what it cost, the function waits twice as long before the next: a function that
// is another one at each call compiles a number of times that grows with the logarithm of its calls.
//
// `config.accumulated_recompile_limit` is the end of it: how often a program is compiled again in all, what lies behind
// its graph breaks included. From there on calls that fit none of its entries run eagerly.
//
// What runs eagerly for a limit runs eagerly as a whole: functions called there are not compiled on their own, or each
// would start a limit of its own.
#pragma once
#include "runtime/cache.h"

namespace pellucid::runtime {

enum class Verdict {
  Refused,
  Allowed,
  Replaces,  // the entry that was used longest ago
};

// What may be done for a call that fits no entry.
struct Permission {
  Verdict verdict = Verdict::Refused;
  py::Owned<> record;      // of a function that was compiled before: a pellucid.Recompile
  std::int64_t since = 0;  // nanoseconds
  // It is done: `region` is what was made, -1 for nothing.
  void note_cost(int region) const;
};

// Whether one more entry may be made for this call, which fits none; notes why those there are do not fit. `cache` is
// `root`, the cache of the program, or one behind its breaks. Throws what fullgraph, config.error_on_recompile and
// config.fail_on_recompile_limit_hit ask for.
Permission may_compile(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots, PyObject* closure,
                       bool fullgraph);

// The stance of the compiler (stance.h) says that nothing is compiled for a call that fits no entry.
bool stance_keeps_from(const Cache& cache) noexcept;
// Throws where the stance asks for an error then.
void refuse_by_stance(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots, PyObject* closure);

// Whether an entry that others have made may be taken over.
bool has_room(const Cache& cache);

// Why the entries do not fit a call.
struct Misses {
  std::string newest;    // of the entry that was used last; "" when there is none
  py::Owned<> failures;  // [(region, [pellucid.GuardFailure, …]), …]
};
// Remembers what each entry failed on.
Misses explain_misses(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots, PyObject* closure);

}  // namespace pellucid::runtime
