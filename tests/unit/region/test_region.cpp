// The stores of a region without anybody who runs frames: what they note, guard and leave as effects.
#include <algorithm>

#include "../check.h"
#include "aten/aten.h"
#include "region/input_names.h"
#include "region/names.h"
#include "region/region.h"

using namespace pellucid;
using region::Effect;
using region::Kind;

namespace {

// A region of `def f(x): pass`, whose argument is `x`.
struct Fixture {
  explicit Fixture(const char* source) : globals(py::take(PyDict_New())) {
    aten::initialise();
    region::initialise();
    py::check(PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()));
    (void)py::take(PyRun_String("def f(x): pass", Py_file_input, globals.get(), globals.get()));
    auto* function = reinterpret_cast<PyFunctionObject*>(PyDict_GetItemString(globals.get(), "f"));
    open = std::make_unique<region::Region>(function, reinterpret_cast<PyCodeObject*>(function->func_code));
    (void)py::take(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
    x = PyDict_GetItemString(globals.get(), "x");
    open->provenance.note_read(x, argument());
  }
  const region::Source* argument() { return open->capture->sources.local(0, py::interned("x").get()); }
  std::ptrdiff_t count(Kind kind) const {
    const auto& all = open->capture->guards.all();
    return std::ranges::count_if(all, [&](const guards::Guard& guard) { return guard.kind == kind; });
  }
  std::unique_ptr<region::Capture> finish() { return region::finish(*open, py::Owned<>::share(Py_None)); }

  py::Owned<> globals;
  std::unique_ptr<region::Region> open;
  PyObject* x = nullptr;
};

py::Owned<> number(long value) { return py::take(PyLong_FromLong(value)); }

}  // namespace

TEST("region: a value is guarded by what it is, once for each way to it") {
  Fixture f("x = 7");
  CHECK_EQ(f.count(Kind::EQUALS_MATCH), 1);
  f.open->provenance.note_read(f.x, f.argument());
  CHECK_EQ(f.count(Kind::EQUALS_MATCH), 1);
  CHECK(!f.open->provenance.is_outside(f.x));  // a constant like any other
}

TEST("region: an object has a source, what the region makes has none") {
  Fixture f("x = [1, 2]");
  auto fresh = py::take(PyList_New(0));
  CHECK(f.open->provenance.is_outside(f.x));
  CHECK(!f.open->provenance.is_outside(fresh.get()));
  CHECK_EQ(f.count(Kind::TYPE_MATCH), 1);
  CHECK_EQ(f.count(Kind::LENGTH), 0);
  CHECK_EQ(f.open->reads.length_of(f.x), 2);
  CHECK_EQ(f.count(Kind::LENGTH), 1);
}

TEST("region: a write goes to the shadow and becomes an effect") {
  Fixture f("x = [1, 2]");
  PyObject* shadow = f.open->shadows.writable(f.x);
  CHECK(shadow != f.x);
  CHECK(f.open->shadows.original(shadow) == f.x);
  CHECK(f.open->shadows.readable(f.x) == shadow);
  py::check(PyList_Append(shadow, number(3).get()));
  CHECK_EQ(PyList_GET_SIZE(f.x), 2);
  const auto capture = f.finish();
  CHECK_EQ(capture->effects.size(), std::size_t{1});
  CHECK(capture->effects[0].kind == Effect::Kind::SetList);
  CHECK(capture->effects[0].target.get() == f.x);
  CHECK_EQ(PyList_GET_SIZE(capture->effects[0].value.get()), 3);
  CHECK(capture->stands_for.at(shadow) == f.x);
}

TEST("region: reading an entry of a dict guards that one, an absent one its absence") {
  Fixture f("x = {'a': 1, 'b': 2}");
  bool found = false;
  const auto a = py::interned("a"), c = py::interned("c");
  CHECK_EQ(PyLong_AsLong(f.open->reads.dict_get(f.x, a.get(), &found).value.get()), 1L);
  CHECK(found);
  CHECK_EQ(f.count(Kind::EQUALS_MATCH), 1);
  CHECK(!f.open->reads.dict_contains(f.x, c.get()));
  CHECK_EQ(f.count(Kind::DICT_CONTAINS), 1);
  CHECK_EQ(f.count(Kind::DICT_KEYS), 0);
  f.open->reads.touch(f.x);
  CHECK_EQ(f.count(Kind::DICT_KEYS), 1);
}

TEST("region: an entry that the region wrote needs no guard") {
  Fixture f("x = {'a': 1}");
  const auto a = py::interned("a");
  f.open->shadows.dict_set(f.x, a.get(), number(5).get());
  const auto before = f.open->capture->guards.all().size();
  bool found = false;
  CHECK_EQ(PyLong_AsLong(f.open->reads.dict_get(f.x, a.get(), &found).value.get()), 5L);
  CHECK_EQ(f.open->capture->guards.all().size(), before);
  CHECK_EQ(PyLong_AsLong(PyDict_GetItem(f.x, a.get())), 1L);
}

TEST("region: an iterator from outside stays where it is, how far it goes is an effect") {
  Fixture f("x = iter([10, 20, 30])");
  CHECK_EQ(PyLong_AsLong(f.open->iterators.next(f.x).get()), 10L);
  CHECK_EQ(PyLong_AsLong(f.open->iterators.next(f.x).get()), 20L);
  const auto capture = f.finish();
  CHECK_EQ(capture->effects.size(), std::size_t{1});
  CHECK(capture->effects[0].kind == Effect::Kind::Advance);
  CHECK_EQ(capture->effects[0].count, 2);
  CHECK(!capture->effects[0].ends);
  CHECK_EQ(PyLong_AsLong(py::take(PyIter_Next(f.x)).get()), 10L);
}

TEST("region: a step that is not finished moves no iterator") {
  Fixture f("x = iter([10, 20, 30])");
  f.open->steps = 1;
  (void)f.open->iterators.next(f.x);
  f.open->steps = 2;
  (void)f.open->iterators.next(f.x);
  f.open->iterators.undo_unfinished();
  CHECK_EQ(f.finish()->effects[0].count, 1);
}

TEST("region: a slot that is written and one that is deleted again") {
  Fixture f("class C: __slots__ = ('a', 'b')\nx = C()");
  auto& writes = f.open->attributes;
  const auto a = py::interned("a"), b = py::interned("b");
  writes.write(f.x, a.get(), number(1).get());
  writes.write(f.x, b.get(), number(2).get(), false);
  CHECK(writes.remove(f.x, b.get(), false));
  CHECK(!writes.remove(f.x, b.get(), false));
  CHECK(!writes.find(f.x, b.get())->value);
  const auto capture = f.finish();
  CHECK_EQ(capture->effects.size(), std::size_t{1});  // `b` is as it was
  CHECK(capture->effects[0].name.get() == a.get());
}

TEST("region: a cell that is written") {
  Fixture f("def outer():\n  v = 1\n  return lambda: v\nx = outer().__closure__[0]");
  f.open->shadows.cell_set(f.x, number(9).get());
  CHECK_EQ(PyLong_AsLong(f.open->shadows.cell_get(f.x)), 9L);
  CHECK_EQ(PyLong_AsLong(PyCell_GET(f.x)), 1L);
  CHECK(f.finish()->effects[0].kind == Effect::Kind::SetCell);
}

TEST("region: an attribute is looked up along the MRO, guarded once") {
  Fixture f("class A:\n  a = 1\nclass B(A): pass\nx = B()");
  PyObject* found = f.open->lookups.type_lookup(Py_TYPE(f.x), "a");
  CHECK_EQ(PyLong_AsLong(found), 1L);
  CHECK(f.open->lookups.type_lookup(Py_TYPE(f.x), "missing") == nullptr);
  CHECK_EQ(f.count(Kind::TYPE_LOOKUP), 2);
  f.open->lookups.type_lookup(Py_TYPE(f.x), "a");
  CHECK_EQ(f.count(Kind::TYPE_LOOKUP), 2);
}

TEST("region: dropping an object with __del__ is a break") {
  Fixture f("class D:\n  def __del__(self): pass\nx = [D()]");
  f.open->reads.touch(f.x);
  CHECK_THROWS(GraphBreak, f.open->shadows.writable(f.x));
  Fixture plain("x = [object()]");
  plain.open->reads.touch(plain.x);
  plain.open->shadows.writable(plain.x);
  CHECK(plain.open->drops.may_have_held(plain.x));
  CHECK_EQ(plain.count(Kind::NO_FINALIZER), 1);
}

TEST("region: tensors become placeholders, an operation a node") {
  Fixture f("import torch\nx = torch.ones(2, 3)");
  PyObject* const add = PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "add");
  const auto name = py::interned("add");
  PyObject* args[] = {f.x, f.x};
  const auto sum = f.open->recorder.torch_call(graph::Op::CallMethod, add, name.get(), region::Args{args, nullptr});
  Py_DECREF(add);
  CHECK(sum.is_value());
  CHECK(aten::is_fake(sum.value.get()));
  CHECK(f.open->recorder.node_of(sum.value.get()) != nullptr);
  CHECK(f.open->recorder.node_of(f.x)->op == graph::Op::Placeholder);
  CHECK_EQ(f.open->capture->graph.op_count(), std::size_t{1});
  CHECK_EQ(f.count(Kind::TENSOR_MATCH), 1);
}

TEST("region: a size that is an input is named by the call that gives it") {
  Fixture f("import torch\nx = torch.ones(2, 3)");
  source::SourceTable& table = f.open->capture->sources;
  const auto size = region::InputNames().name_of(*f.open->capture, table.size_of(f.argument(), 1));
  CHECK_EQ(size.source, std::string("L['x'].size(1)"));
  CHECK_EQ(size.identifier, std::string("L_x_size_1_"));
  const auto stride = region::InputNames().name_of(*f.open->capture, table.stride_of(f.argument(), 0));
  CHECK_EQ(stride.source, std::string("L['x'].stride(0)"));
  CHECK_EQ(stride.identifier, std::string("L_x_stride_0_"));
}

TEST("region: a deferred call gets a tensor as it was") {
  Fixture f("import torch\nx = torch.ones(2)");
  const auto show = py::import_attr("builtins", "print");
  auto args = py::take(PyTuple_Pack(1, f.x));
  f.open->deferred.add(show.get(), args.get(), py::take(PyDict_New()).get());
  const auto write = py::take(PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "zero_"));
  PyObject* self[] = {f.x};
  (void)f.open->recorder.torch_call(graph::Op::CallMethod, write.get(), py::interned("zero_").get(),
                                    region::Args{self, nullptr});
  const auto capture = f.finish();
  CHECK(capture->effects[0].kind == Effect::Kind::Call);
  CHECK(PyTuple_GET_ITEM(capture->effects[0].args.get(), 0) != f.x);  // a copy made before the write
}

TEST("a set of guards keeps one of equal ones, while it grows") {
  constexpr std::int64_t kMany = 1000;
  Fixture f("x = []");
  guards::GuardSet set;
  const auto add = [&](std::int64_t number, py::Owned<> operand) {
    guards::Guard guard;
    guard.kind = Kind::TYPE_LOOKUP;
    guard.source = f.argument();
    guard.operand = std::move(operand);
    guard.number = number;
    return set.add(std::move(guard));
  };
  const auto pair = [] { return py::take(PyTuple_Pack(2, Py_None, Py_Ellipsis)); };  // a tuple of its own each time
  for (std::int64_t number = 0; number < kMany; ++number) {
    const guards::Guard* added = add(number, pair());
    CHECK(added != nullptr && added == &set.all().back() && added->number == number);
    CHECK(add(number / 2, pair()) == nullptr);
  }
  CHECK_EQ(static_cast<std::int64_t>(set.size()), kMany);
  CHECK(add(0, py::take(PyTuple_Pack(2, Py_None, Py_None))) != nullptr);
  const auto all = set.release();
  CHECK_EQ(static_cast<std::int64_t>(all.size()), kMany + 1);
  CHECK(set.size() == 0 && add(0, pair()) != nullptr);
}
