// How objects lead to their parts and what they call themselves: what writing and reading objects have in common. None
// of it runs code of the program.
#pragma once
#include <Python.h>

#include <string>
#include <string_view>

namespace pellucid::runtime::places {

PyObject* modules();
PyObject* singleton_at(std::size_t i);
// Classes without a name that leads to them.
PyTypeObject* core_type(std::size_t i);
PyTypeObject* device_type();
PyTypeObject* cache_wrapper_type();
bool is_atom_of_torch(PyObject* object);
// A loaded module, or what torch.ops has under that name; null: there is none.
PyObject* module_named(PyObject* name);
// The dict of a loaded module; null: there is none. Runs no Python code.
PyObject* namespace_named(PyObject* name);
PyObject* entry_named(PyObject* space, std::string_view name);
// Through the dicts of a module and of classes in it. Borrowed; null: there is no such thing.
PyObject* object_named(std::string_view module, std::string_view name);
// "torch.ops.aten.add" of an operator of torch that object_named() finds there; "" of everything else.
std::string operator_name(PyObject* object);
PyObject* getter_of(PyObject* property, const char* name);
// staticmethod and classmethod have one layout, which is private: their member says the same.
PyObject* function_in(PyObject* wrapper);
PyObject* wrapped_by_cache(PyObject* wrapper);
PyObject* enum_members(PyObject* type);
PyObject* as_object(PyTypeObject* type);
bool is_c_descriptor(PyObject* object);
bool is_wrapper_of_function(PyObject* object);
// What C functions, C descriptors and atoms of torch call themselves: another one may stand where it was.
std::string own_name(PyObject* object);

}  // namespace pellucid::runtime::places
