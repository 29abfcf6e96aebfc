// Methods of generators.
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

Result stopped_by_function(Interpreter&, PyObject*, Args) {
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "StopIteration from the function"}, {"type", "iterator"}});
}

// The generator itself, or what stands for one from outside.
PyObject* own_generator(Interpreter& t, PyObject* generator) {
  if (region::cat_of(generator) == Cat::Generator) return generator;
  PyObject* twin = t.twin_of_generator(generator);
  if (twin == nullptr) unsupported(Reason::OutsideIterator, {{"type", Py_TYPE(generator)->tp_name}});
  return twin;
}

Result gen_send(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2 || args.kwnames != nullptr) unsupported(Reason::BadArguments, {{"callee", describe(f)}});
  return t.resume(own_generator(t, args[0]), args[1]);
}

Result gen_close(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || args.kwnames != nullptr) unsupported(Reason::BadArguments, {{"callee", describe(f)}});
  return t.close(own_generator(t, args[0]));
}

Result gen_throw(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || args.size() > 4 || args.kwnames != nullptr)
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  if (args.size() == 2 && PyExceptionInstance_Check(args[1]))
    return t.throw_into(own_generator(t, args[0]), py::Owned<>::share(args[1]));
  return protocols::call_polyfill(t, "generator_throw", args.values);
}

const Row rows[] = {
    {"pellucid._core.TracedGenerator.send", gen_send},
    {"pellucid._core.TracedGenerator.throw", gen_throw},
    {"pellucid._core.TracedGenerator.close", gen_close},
    {"pellucid.polyfills_language.stopped_by_function", stopped_by_function},
    {"types.GeneratorType.send", gen_send},
    {"types.GeneratorType.throw", gen_throw},
    {"types.GeneratorType.close", gen_close},
};

}  // namespace

const std::span<const Row> kGeneratorRows = rows;

}  // namespace pellucid::rows
