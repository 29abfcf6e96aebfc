// The compiled regions of one function, and the registry by which compiled functions of the same code share them.
//
// Ownership: a compiled function holds its cache (a Python object that the collector traverses), the cache holds its
// entries, the registry holds nothing. So whatever a compile keeps is released with the last compiled function that can
// use it.
//
// Wrappers of different modules have caches of their own, so that each has its own limit, looks at what it used last
// first, and none keeps alive what only a dead one needed. What one of them compiled serves the others all the same: a
// cache without an entry that fits takes over a copy of one that another instance's cache has (the region is shared,
// the guards' latches are its own).
#pragma once
#include <Python.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/reasons.h"
#include "frames/state.h"
#include "guards/program.h"
#include "guards/tell.h"
#include "py/ref.h"
#include "region/number_history.h"
#include "runtime/entry_index.h"
#include "runtime/loop_lengths.h"

namespace pellucid::runtime {

// One compiled region: the function that stands for it and the guards under which it does.
struct Entry {
  py::Owned<PyFunctionObject> region;
  std::unique_ptr<guards::GuardProgram> guards;
  guards::Tells tells;                             // what calls have failed on
  PyObject* input_loader = nullptr;                // of the region (borrowed from it), or null
  py::Owned<> graph_call;                          // what the region calls; empty when it has no graph
  std::shared_ptr<const aten::GlobalState> after;  // set: how it leaves grad mode and its like
  std::shared_ptr<const frames::Shape> exit;       // set: the region gives the live values of a program that goes on
  bool follows_modes = false;                      // of torch functions: they are aside while it runs
  int depth = 0;                                   // how many calls are open at once at the deepest point of the region
  std::int64_t hits = 0;
  std::uint64_t used = 0;  // one of many: grows with each use of any of them (entry_index.h)
  int number = 0;          // "__compiled_fn_<number>"
  // Its graph asserts what it cannot know, and operators that are not captured would do as well (no fullgraph=True).
  bool may_give_up = false;

  std::unique_ptr<Entry> copy() const;  // for another cache
  // One of several: whether its guards hold. Runs no Python code.
  bool fits(PyObject* const* locals, PyObject* closure, guards::GuardProgram::StateReading* state) const noexcept {
    return tells.may_hold(*guards, locals, closure) && guards->check(locals, closure, state);
  }
};

// What entries depend on besides their guards; and `instance`, the module of a module wrapper (or null).
struct CacheKey {
  PyObject* code = nullptr;
  PyObject* globals = nullptr;
  PyObject* backend = nullptr;
  PyObject* instance = nullptr;
  bool operator==(const CacheKey&) const = default;
};

using Dropped = std::vector<std::shared_ptr<Entry>>;

class Cache {
 public:
  explicit Cache(const CacheKey& key);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  const CacheKey& key() const noexcept { return key_; }

  // The entry whose guards hold, moved to the front; null when there is none. Runs no Python code.
  // `skips_guards`: the first that nothing is known to speak against, whatever its guards say (set_stance).
  Entry* find(PyObject* const* locals, PyObject* closure, bool skips_guards = false) noexcept;
  // The new entry is valid until Python code runs. Older ones that give way to it, because it serves their calls too
  // or because it `replaces` the one that was used longest ago, are handed out: whoever lets them go runs Python code.
  Entry* add(std::unique_ptr<Entry> entry, bool replaces, Dropped& dropped);
  // An entry like one whose guards hold and that another cache has: of an instance with the same code, globals and
  // backend, or of the same place in its program. Null when there is none. `whole`: it may not end at a break.
  std::unique_ptr<Entry> adopt(const std::vector<py::Owned<>>& others, PyObject* const* locals, PyObject* closure,
                               bool whole) const;
  // Where an assertion of a graph fails at call after call: its entry goes, and the operators whose numbers it asserts
  // something of are not captured any more.
  void give_up_unbacked(PyObject* graph_call, Dropped& dropped);
  void drop_dead();  // entries that can never hold again: an object they depend on is gone
  // Whoever runs Python code while it looks at entries copies the vector: a finaliser or another thread may drop them.
  // The one used last first.
  const std::vector<std::shared_ptr<Entry>>& entries() const noexcept {
    if (is_unordered_) order();
    return entries_;
  }

  // How many there have been, gone ones included.
  std::int64_t entries_made() const noexcept { return made_; }
  // All places are taken, and this call fits none of them: whether so many calls have done so (`patience`; 0: never)
  // that an older entry gives way. Each time that the newest has not earned what it cost, it takes twice as many.
  bool entry_gives_way(std::int64_t patience) noexcept;

  void begin_compile() noexcept;  // gives it its number
  // (number of this cache, how many compiles it saw before): names one compile, as torch._guards.CompileId does.
  std::pair<int, int> compile_id() const noexcept { return {number_, compiles_}; }

  // Forgets everything: entries, stops, the reached limit.
  void reset();
  int traverse(visitproc visit, void* arg) const;
  void clear();  // tp_clear: drops whatever may be part of a cycle

  // ---- policy
  bool given_up = false;        // this code is not captured any more
  bool busy = false;            // a thread compiles it now
  bool has_run = false;         // a call ran otherwise on purpose, to be compiled from the next on (set_stance)
  std::string reported_limit;   // the option whose limit was reported last
  std::int64_t recompiles = 0;  // of this and of what lies behind its breaks
  int failures = 0;
  std::string last_stop;                       // where the last capture stopped …
  About last_stop_about = About::Code;         // … and whose verdict that is
  std::vector<py::Owned<>> stops;              // break records, oldest first
  region::NumberHistory numbers;               // what its regions read
  bool takes_unbacked = true;                  // nothing speaks against numbers that the graph gives
  bool backend_failed_unbacked = false;        // the backend did: what lies behind the breaks does without them too
  std::vector<std::string> guard_failures;     // why calls missed (row B15)
  std::vector<py::Owned<>> recompile_records;  // and what it cost, oldest first

  // ---- where programs go on behind a graph break
  // Where the regions of this cache begin: the open frames, outermost first; none: at the start of the function.
  struct Begin {
    py::Owned<PyCodeObject> code;
    int offset;
  };
  std::vector<Begin> begins_at;
  // The cache of the regions that start with these open frames; null when there are `most` already. Kept by this one,
  // which `object` owns. Variables that are unbound in the first turn of a loop alone are filled in the state.
  Cache* continuation(frames::State& state, std::size_t most);
  FilledLists filled_lists;  // of the program that begins here
  MetLengths met_lengths;
  // The caches of the same place in the programs of other instances.
  std::vector<py::Owned<>> continuations_of_others(const frames::State& state) const;
  std::vector<py::Owned<>> continuations() const;  // all of them, as Python objects
  PyObject* object = nullptr;

  // The caches of other instances.
  std::vector<py::Owned<>> others() const;
  py::Owned<> begins_at_as_tuple() const;  // ((code, offset), …)

  // ---- functions called by an eager run of this one (hook.h)
  std::vector<py::Owned<>> inner;  // their caches
  int inner_calls = 0, hooked_runs = 0;
  std::vector<py::Owned<>> forced;  // the caches of this function with backends that set_stance asked for
  // A few runs without a function worth compiling, and the hook is left away.
  bool worth_hooking() const noexcept { return hooked_runs < 3 || inner_calls != 0; }

 private:
  CacheKey key_;
  py::Owned<> code_, globals_, backend_, instance_;
  struct Continuation {
    py::Owned<> cache;
    std::vector<py::Owned<>> held;     // what the key points to
    std::vector<frames::Slot> filled;  // there are some: another key, with these filled, has the cache too
  };
  mutable std::vector<std::shared_ptr<Entry>> entries_;
  std::unique_ptr<EntryIndex> index_;  // of many; null where nothing tells them apart
  mutable bool is_unordered_ = false;  // the index alone knows which entries were used last
  int number_ = -1, compiles_ = -1;
  std::int64_t made_ = 0;
  std::int64_t misses_ = 0, wait_ = 0;  // of entry_gives_way
  std::weak_ptr<Entry> newest_;
  std::unordered_map<frames::Key, Continuation, frames::KeyHash> continuations_;

  static constexpr std::size_t kFew = 4;  // entries that are tried one by one

  Entry* find_among_many(PyObject* const* locals, PyObject* closure, bool skips_guards) noexcept;
  Entry* find_by_trying(PyObject* const* locals, PyObject* closure, bool skips_guards) noexcept;
  void order() const noexcept;
  void make_index();
  void drop_subsumed(const Entry& entry, Dropped& dropped);
};

// Marks a cache as being compiled for.
class BusyScope {
 public:
  explicit BusyScope(Cache& cache) : cache_(cache) { cache_.busy = true; }
  ~BusyScope() { cache_.busy = false; }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;

 private:
  Cache& cache_;
};

// A Python object that owns a Cache.
py::Owned<> cache_for(const CacheKey& key);          // the one in use, or a new one
Cache* cache_of(PyObject* cache_object) noexcept;    // of what cache_for gave
std::vector<py::Owned<>> caches_of(PyObject* code);  // whatever their globals, backend and instance
void reset_all();
void initialise_cache_type(PyObject* module);

}  // namespace pellucid::runtime
