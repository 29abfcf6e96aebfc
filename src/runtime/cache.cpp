#include "runtime/cache.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "guards/implication.h"

namespace pellucid::runtime {
namespace {

struct HashKey {
  std::size_t operator()(const CacheKey& key) const noexcept {
    std::size_t hash = 0;
    for (PyObject* part : {key.code, key.globals, key.backend, key.instance}) {
      hash = hash * 1000003 + (reinterpret_cast<std::size_t>(part) >> 4);
    }
    return hash;
  }
};

struct CacheObject {
  PyObject_HEAD Cache* cache;
};

// Caches in use, by key. Guarded by the GIL. Never destroyed: compiled functions may outlive static objects.
using Registry = std::unordered_map<CacheKey, CacheObject*, HashKey>;
Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

// The same caches by key without instance, oldest first.
using Groups = std::unordered_map<CacheKey, std::vector<CacheObject*>, HashKey>;
Groups& groups() {
  static Groups* const all = new Groups;
  return *all;
}

CacheKey group_of(CacheKey key) noexcept {
  key.instance = nullptr;
  return key;
}

PyTypeObject* cache_type = nullptr;

int traverse_cache(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return reinterpret_cast<CacheObject*>(self)->cache->traverse(visit, arg);
}

void leave_registry(CacheObject* object) {
  const auto found = registry().find(object->cache->key());
  if (found == registry().end() || found->second != object) return;
  registry().erase(found);
  const auto group = groups().find(group_of(object->cache->key()));
  std::erase(group->second, object);
  if (group->second.empty()) groups().erase(group);
}

int clear_cache(PyObject* self) {
  leave_registry(reinterpret_cast<CacheObject*>(self));  // its key stops being held now
  reinterpret_cast<CacheObject*>(self)->cache->clear();
  return 0;
}

void dealloc_cache(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* object = reinterpret_cast<CacheObject*>(self);
  leave_registry(object);
  delete object->cache;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  const auto held_type = py::Owned<PyTypeObject>::steal(type);
}

py::Owned<> new_cache(const CacheKey& key) {
  auto cache = std::make_unique<Cache>(key);
  auto object = py::take(PyType_GenericAlloc(cache_type, 0));
  cache->object = object.get();
  reinterpret_cast<CacheObject*>(object.get())->cache = cache.release();
  return object;
}

}  // namespace

Cache::Cache(const CacheKey& key)
    : key_(key),
      code_(py::Owned<>::share(key.code)),
      globals_(py::Owned<>::share(key.globals)),
      backend_(py::Owned<>::share(key.backend)),
      instance_(py::Owned<>::share(key.instance)) {}
Cache::~Cache() = default;

Entry* Cache::find(PyObject* const* locals, PyObject* closure, bool skips_guards) noexcept {
  if (index_ != nullptr) return find_among_many(locals, closure, skips_guards);
  return find_by_trying(locals, closure, skips_guards);
}

// Trying them one by one would give the same: an entry that is not asked has a guard that fails, one of its Tells.
Entry* Cache::find_among_many(PyObject* const* locals, PyObject* closure, bool skips_guards) noexcept {
  guards::GuardProgram::StateReading state;
  const auto found = index_->find(locals, closure, [&](const Entry& entry, bool is_only) {
    if (is_only && !skips_guards) return entry.guards->check(locals, closure, &state);
    return skips_guards ? entry.guards->alive() && entry.tells.may_hold(*entry.guards, locals, closure)
                        : entry.fits(locals, closure, &state);
  });
  if (!found.is_known) {
    order();
    Entry* entry = find_by_trying(locals, closure, skips_guards);
    if (entry != nullptr) index_->note_use(*entry);
    return entry;
  }
  if (found.entry == nullptr) return nullptr;
  is_unordered_ = true;
  ++found.entry->hits;
  return found.entry;
}

void Cache::order() const noexcept {
  if (is_unordered_) std::ranges::sort(entries_, std::ranges::greater{}, [](const auto& entry) { return entry->used; });
  is_unordered_ = false;
}

void Cache::make_index() { index_ = entries_.size() > kFew ? EntryIndex::over(entries_) : nullptr; }

Entry* Cache::find_by_trying(PyObject* const* locals, PyObject* closure, bool skips_guards) noexcept {
  guards::GuardProgram::StateReading state;
  const bool one = entries_.size() == 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    const bool fits = skips_guards ? entry.guards->alive() && entry.tells.may_hold(*entry.guards, locals, closure)
                      : one        ? entry.guards->check(locals, closure, &state)
                                   : entry.fits(locals, closure, &state);
    if (!fits) continue;
    if (i != 0)
      std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(i),
                  entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ++entries_.front()->hits;
    return entries_.front().get();
  }
  return nullptr;
}

Entry* Cache::add(std::unique_ptr<Entry> entry, bool replaces, Dropped& dropped) {
  order();
  index_.reset();
  if (guards::has_open(*entry->guards)) drop_subsumed(*entry, dropped);
  if (replaces && dropped.empty() && !entries_.empty()) {
    dropped.push_back(std::move(entries_.back()));
    entries_.pop_back();
  }
  for (const auto& older : entries_) entry->tells.add_as_in(*entry->guards, older->tells, *older->guards);
  ++made_;
  entries_.insert(entries_.begin(), std::move(entry));
  newest_ = entries_.front();
  make_index();
  return entries_.front().get();
}

// A call that an older entry served is served by this one as well: so long as that one serves whole programs, as
// fullgraph asks, this one must.
void Cache::drop_subsumed(const Entry& entry, Dropped& dropped) {
  const auto is_subsumed = [&](const std::shared_ptr<Entry>& older) {
    const bool is_shorter = entry.exit != nullptr && older->exit == nullptr;
    return !is_shorter && guards::implies(*older->guards, *entry.guards);
  };
  const auto gone =
      std::stable_partition(entries_.begin(), entries_.end(), [&](const auto& older) { return !is_subsumed(older); });
  std::move(gone, entries_.end(), std::back_inserter(dropped));
  entries_.erase(gone, entries_.end());
}

bool Cache::entry_gives_way(std::int64_t patience) noexcept {
  constexpr std::int64_t kEarns = 10;  // calls: a compile costs more than many eager ones
  if (patience == 0) return false;
  const auto newest = newest_.lock();
  const bool has_earned = newest != nullptr && newest->hits >= kEarns;
  const std::int64_t wait = wait_ == 0 || has_earned ? patience : 2 * wait_;
  if (++misses_ < wait) return false;
  misses_ = 0;
  wait_ = wait;
  return true;
}

std::unique_ptr<Entry> Entry::copy() const {
  auto made = std::make_unique<Entry>();
  made->region = region.copy();
  made->guards = guards->copy();
  made->tells = tells;  // the copy shares the sources
  made->input_loader = input_loader;
  made->graph_call = graph_call.copy();
  made->after = after;
  made->follows_modes = follows_modes;
  made->exit = exit;
  made->depth = depth;
  made->number = number;
  return made;
}

std::unique_ptr<Entry> Cache::adopt(const std::vector<py::Owned<>>& others, PyObject* const* locals, PyObject* closure,
                                    bool whole) const {
  std::unordered_set<int> seen;  // copies of one entry fit alike
  for (const auto& entry : entries_) seen.insert(entry->number);
  for (const auto& other : others) {
    const auto theirs = cache_of(other.get())->entries();
    for (const auto& entry : theirs) {
      if (!seen.insert(entry->number).second || (whole && entry->exit != nullptr)) continue;
      if (!entry->fits(locals, closure, nullptr)) continue;
      auto made = entry->copy();
      // Making it may have started the collector, whose finalisers run Python code.
      if (made->guards->check(locals, closure)) return made;
    }
  }
  return nullptr;
}

std::vector<py::Owned<>> Cache::others() const {
  std::vector<py::Owned<>> all;
  const auto group = groups().find(group_of(key_));
  if (group == groups().end()) return all;
  for (CacheObject* object : group->second) {
    if (object->cache != this) all.push_back(py::Owned<>::share(reinterpret_cast<PyObject*>(object)));
  }
  return all;
}

std::vector<py::Owned<>> Cache::continuations_of_others(const frames::State& state) const {
  std::vector<py::Owned<>> all;
  const auto key = frames::key_of(state);
  for (const auto& other : others()) {
    const auto& theirs = cache_of(other.get())->continuations_;
    if (const auto found = theirs.find(key); found != theirs.end()) all.push_back(found->second.cache.copy());
  }
  return all;
}

void Cache::begin_compile() noexcept {
  static int next_number = 0;  // guarded by the GIL
  if (number_ < 0) number_ = next_number++;
  ++compiles_;
}

void Cache::drop_dead() {
  const auto is_alive = [](const auto& entry) { return entry->guards->alive(); };
  if (std::ranges::all_of(entries_, is_alive)) return;
  order();
  index_.reset();
  std::vector<std::shared_ptr<Entry>> living, dead;
  for (auto& entry : entries_) (is_alive(entry) ? living : dead).push_back(std::move(entry));
  entries_ = std::move(living);
  make_index();  // before the dead ones go, which runs Python code
}

void Cache::give_up_unbacked(PyObject* graph_call, Dropped& dropped) {
  takes_unbacked = false;
  const auto gone = std::stable_partition(entries_.begin(), entries_.end(),
                                          [&](const auto& entry) { return entry->graph_call.get() != graph_call; });
  std::move(gone, entries_.end(), std::back_inserter(dropped));
  entries_.erase(gone, entries_.end());
  make_index();
}

void Cache::reset() {
  inner_calls = hooked_runs = 0;
  given_up = has_run = false;
  takes_unbacked = true;
  backend_failed_unbacked = false;
  reported_limit.clear();
  failures = 0;
  recompiles = made_ = misses_ = wait_ = 0;
  last_stop.clear();
  last_stop_about = About::Code;
  numbers = {};
  filled_lists.clear();
  met_lengths.clear();
  guard_failures.clear();
  index_.reset();
  is_unordered_ = false;
  // Moved out first: a finaliser that runs now sees an empty cache.
  const auto dropped_stops = std::exchange(stops, {});
  const auto dropped_records = std::exchange(recompile_records, {});
  const auto dropped_entries = std::exchange(entries_, {});
  const auto dropped_continuations = std::exchange(continuations_, {});
  const auto dropped_inner = std::exchange(inner, {});
  const auto dropped_forced = std::exchange(forced, {});
}

Cache* Cache::continuation(frames::State& state, std::size_t most) {
  auto key = frames::key_of(state);
  if (const auto found = continuations_.find(key); found != continuations_.end()) {
    frames::fill(state, found->second.filled);
    return cache_of(found->second.cache.get());
  }
  if (continuations_.size() >= most) return nullptr;
  Continuation made;
  made.filled = frames::unbound_in_first_turn(state);
  if (!made.filled.empty()) {
    frames::fill(state, made.filled);
    Cache* const joint = continuation(state, most);
    if (joint == nullptr) return nullptr;
    made.cache = py::Owned<>::share(joint->object);
    continuations_.emplace(std::move(key), std::move(made));  // the other one holds what the key points to
    return joint;
  }
  made.cache = new_cache(key_);
  cache_of(made.cache.get())->takes_unbacked = !backend_failed_unbacked;
  for (const auto& frame : state.frames) {
    made.held.push_back(py::Owned<>::share(frame.function->func_code));
    made.held.push_back(py::Owned<>::share(frame.function->func_globals));
    cache_of(made.cache.get())->begins_at.push_back({py::Owned<PyCodeObject>::share(frame.code()), frame.next});
  }
  return cache_of(continuations_.emplace(std::move(key), std::move(made)).first->second.cache.get());
}

py::Owned<> Cache::begins_at_as_tuple() const {
  auto frames = py::take(PyTuple_New(static_cast<Py_ssize_t>(begins_at.size())));
  for (std::size_t i = 0; i < begins_at.size(); ++i) {
    auto frame = py::take(Py_BuildValue("(Oi)", begins_at[i].code.object(), begins_at[i].offset));
    PyTuple_SET_ITEM(frames.get(), static_cast<Py_ssize_t>(i), frame.release());
  }
  return frames;
}

std::vector<py::Owned<>> Cache::continuations() const {
  std::vector<py::Owned<>> all;
  for (const auto& [key, continuation] : continuations_) {
    if (continuation.filled.empty()) all.push_back(continuation.cache.copy());
  }
  return all;
}

int Cache::traverse(visitproc visit, void* arg) const {
  for (const auto& [key, continuation] : continuations_) {
    Py_VISIT(continuation.cache.get());
    for (const auto& held : continuation.held) Py_VISIT(held.get());
  }
  Py_VISIT(globals_.get());
  Py_VISIT(backend_.get());
  Py_VISIT(instance_.get());
  for (const auto& record : stops) Py_VISIT(record.get());
  for (const auto& record : recompile_records) Py_VISIT(record.get());
  for (const auto& cache : inner) Py_VISIT(cache.get());
  for (const auto& cache : forced) Py_VISIT(cache.get());
  for (const auto& entry : entries_) {
    Py_VISIT(entry->region.object());
    Py_VISIT(entry->graph_call.get());
    if (const int stop = entry->guards->traverse(visit, arg); stop != 0) return stop;
  }
  return 0;
}

void Cache::clear() {
  reset();
  const py::Owned<> globals = std::move(globals_), backend = std::move(backend_), instance = std::move(instance_);
}

py::Owned<> cache_for(const CacheKey& key) {
  if (const auto found = registry().find(key); found != registry().end()) {
    return py::Owned<>::share(reinterpret_cast<PyObject*>(found->second));
  }
  auto object = new_cache(key);
  // A finaliser that ran at the allocation may have made one for the same key: then that one stays in the registry.
  auto* made = reinterpret_cast<CacheObject*>(object.get());
  if (registry().emplace(key, made).second) groups()[group_of(key)].push_back(made);
  return object;
}

Cache* cache_of(PyObject* cache_object) noexcept { return reinterpret_cast<CacheObject*>(cache_object)->cache; }

std::vector<py::Owned<>> caches_of(PyObject* code) {
  std::vector<py::Owned<>> found;
  for (const auto& [key, object] : registry()) {
    if (key.code == code) found.push_back(py::Owned<>::share(reinterpret_cast<PyObject*>(object)));
  }
  return found;
}

void reset_all() {
  std::vector<py::Owned<>> all;  // held: dropping entries may drop caches
  for (const auto& [key, object] : registry()) all.push_back(py::Owned<>::share(reinterpret_cast<PyObject*>(object)));
  for (const auto& object : all) cache_of(object.get())->reset();
}

void initialise_cache_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_cache)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_cache)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_cache)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.Cache", sizeof(CacheObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  cache_type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromModuleAndSpec(module, &spec, nullptr)).release());
}

}  // namespace pellucid::runtime
