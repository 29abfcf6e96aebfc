// Objects that a capture knows by identity, for another process: where each one is found there, and what has to be true
// of it. A place is a module and a name, a part of another object (the code of a function, an item of a tuple, what a
// class has under a name), or what a source leads to. Values (numbers, texts, tuples of them) are made anew.
//
// What is checked of an object is what a capture may rely on without a guard: the code of a function and its globals,
// the bases and special methods of a class, the items of a tuple, the type of everything else. What may change is
// guarded below it.
#pragma once
#include <Python.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "py/ref.h"
#include "runtime/kept_bytes.h"
#include "source/source.h"

namespace pellucid::runtime {

// The capture cannot be kept.
struct Unkept {
  std::string why;
};

enum class Place : std::uint8_t {
  Singleton,  // None, True, False, Ellipsis, NotImplemented
  Int,
  Float,
  Complex,
  Text,
  Bytes,
  Tuple,  // made anew, as are the next five
  FrozenSet,
  Slice,
  Range,
  Device,
  Size,       // torch.Size
  CoreType,   // a class of CPython that no module shows, by its place in a table
  Entry,      // the function that is called
  Module,     // by its name
  Namespace,  // the dict of the module
  Named,      // module and qualified name, through the dicts of modules and classes
  Part,       // of another object
  AtSource,
};

enum class Part : std::uint8_t {
  Code,
  Defaults,
  KwDefaults,
  Globals,
  Builtins,
  Closure,
  Cell,
  Getter,
  Setter,
  Deleter,
  Function,  // of a method, a staticmethod or a classmethod
  Self,
  Item,
  ClassDict,
  Mro,
  Bases,
  Lookup,   // what a class has under a name, along its MRO
  Member,   // of an enum, by its name
  Wrapped,  // by functools.lru_cache
  Class,    // of an object
};

// The digest of code, with the code of the functions in it. Line numbers and file names count.
std::string code_digest(PyObject* code);
// Module, name and bases of a class, and which special methods its own classes define.
std::string class_digest(PyTypeObject* type);
// What an encoded object of a builtin kind is: compared by value, not by identity.
bool is_kept_by_value(PyObject* object);

// Two rounds: in the first, id() only notes what is asked for; solve() finds a place for each; in the second it gives
// the numbers of the table.
class ObjectWriter {
 public:
  explicit ObjectWriter(PyFunctionObject* entry);
  std::uint32_t id(PyObject* object);
  // `found` is what a class gives for `name`.
  void note_lookup(PyObject* type, PyObject* name, PyObject* found);
  void note_source(PyObject* object, const source::Source* source);
  void solve();
  // Sources that places need.
  const std::vector<const source::Source*>& sources() const noexcept { return used_; }
  template <class SourceId>
  void write(ByteWriter& out, SourceId&& id_of_source);

 private:
  struct Candidate {
    Place place = Place::Part;
    Part part = Part::Code;
    PyObject* base = nullptr;
    std::int64_t index = 0;
    py::Owned<> name;
    const source::Source* source = nullptr;
  };
  struct Row {
    PyObject* object = nullptr;
    Candidate at;
    std::string module, name;      // Module, Namespace, Named
    std::vector<PyObject*> items;  // of a value; checked of a tuple
    PyObject* type = nullptr;      // checked; null: the value says it
    PyObject* globals = nullptr;   // of a function
    std::string digest;            // of a function or class
  };
  void need(PyObject* object);
  bool locate(PyObject* object);
  bool locate_value(PyObject* object);
  bool locate_named(PyObject* object, Row& row);
  bool is_ready(const Candidate& candidate) const;
  bool is_ready(const source::Source* source) const;
  void add(Row row);
  void note_parts(PyObject* object);
  void note_part(PyObject* base, Part part, PyObject* object, std::int64_t index = 0, PyObject* name = nullptr);
  [[noreturn]] void refuse(PyObject* object) const;

  PyFunctionObject* entry_;
  std::vector<PyObject*> needed_;
  std::unordered_set<PyObject*> known_;
  std::unordered_map<PyObject*, std::vector<Candidate>> candidates_;
  std::unordered_map<PyObject*, std::uint32_t> ids_;
  std::vector<Row> rows_;
  std::vector<const source::Source*> used_;
  std::vector<py::Owned<>> held_;
  bool solved_ = false;
  void write_row(ByteWriter& out, const Row& row, std::uint32_t source);
};

template <class SourceId>
void ObjectWriter::write(ByteWriter& out, SourceId&& id_of_source) {
  out.number(rows_.size());
  for (const Row& row : rows_) write_row(out, row, row.at.source != nullptr ? id_of_source(row.at.source) : 0);
}

// Evaluates sources of a table that is being read; what it gives is held by it. Null: it leads nowhere.
class SourceValues {
 public:
  virtual ~SourceValues() = default;
  virtual PyObject* value_of(std::size_t source) = 0;
};

class ObjectReader {
 public:
  ObjectReader(ByteReader& in, PyFunctionObject* entry);
  std::size_t size() const noexcept { return rows_.size(); }
  void use(SourceValues& values) { values_ = &values; }
  // The object of this number, checked. Throws Miss. Runs no Python code.
  PyObject* at(std::size_t id);
  // The object that `found` is said to be: the very object, or of a value one that is equal to it.
  PyObject* same(std::size_t id, PyObject* found);
  bool is_value(std::size_t id) const { return rows_.at(id).place < Place::Entry; }
  void check_all();

 private:
  struct Row {
    Place place = Place::Singleton;
    Part part = Part::Code;
    std::size_t base = 0, source = 0, type = 0, globals = 0;
    std::int64_t index = 0;
    double real = 0, imaginary = 0;
    std::string_view module, name, digest;
    std::vector<std::size_t> items;
    bool has_items = false;
    py::Owned<> object;
    bool open = false;
  };
  Row read_row(ByteReader& in, std::size_t count);
  py::Owned<> made(Row& row);
  PyObject* found(Row& row);
  PyObject* part(Row& row);
  void check(Row& row, PyObject* object);
  PyObject* named(const Row& row) const;

  std::vector<Row> rows_;
  PyFunctionObject* entry_;
  SourceValues* values_ = nullptr;
  std::unordered_map<PyObject*, std::size_t> by_object_;
  std::vector<py::Owned<>> held_;
  int depth_ = 0;
};

}  // namespace pellucid::runtime
