// Attribute access as CPython does it (Objects/object.c, typeobject.c), over the objects of a region.
#pragma once
#include <span>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result getattr(Interpreter& t, PyObject* object, PyObject* name);
// LOAD_METHOD: when the attribute is a plain function or method descriptor found on the type, gives it unbound and
// sets *unbound.
Result getattr_method(Interpreter& t, PyObject* object, PyObject* name, bool* unbound);
// A null value deletes. The user's __setattr__ is called.
Result setattr(Interpreter& t, PyObject* object, PyObject* name, PyObject* value);
Result generic_getattr(Interpreter& t, PyObject* object, PyObject* name);                   // object.__getattribute__
Result generic_setattr(Interpreter& t, PyObject* object, PyObject* name, PyObject* value);  // object.__setattr__
Result type_getattr(Interpreter& t, PyObject* type, PyObject* name);                        // type.__getattribute__
Result type_setattr(Interpreter& t, PyObject* type, PyObject* name, PyObject* value);       // type.__setattr__
Result class_setattr(Interpreter& t, PyObject* type, PyObject* name, PyObject* value);      // through its metaclass
Result slot_setattr(Interpreter& t, PyObject* object, PyObject* slot, PyObject* name, PyObject* value);
Result module_getattr(Interpreter& t, PyObject* module, PyObject* name);
Result tensor_getattr(Interpreter& t, PyObject* tensor, PyObject* name);
// What a getter of torch gives of a tensor, and what a setter does, whatever the tensor's class says.
Result read_of_torch(Interpreter& t, PyObject* tensor, PyObject* name);
Result write_of_torch(Interpreter& t, PyObject* tensor, PyObject* name, PyObject* value);
Result enum_attribute(Interpreter& t, PyObject* member, PyObject* name);
// What C code gives for it: members and getters of builtin types.
Result native_attribute(Interpreter& t, PyObject* object, PyObject* name);
Result instance_dict(Interpreter& t, PyObject* object);  // object.__dict__
// descriptor.__get__; a null object: of the class.
Result bind(Interpreter& t, PyObject* descriptor, PyObject* object, PyObject* type);
// type(object).name(object, *args); the type has `name`.
Result special(Interpreter& t, PyObject* object, const char* name, std::span<PyObject* const> args);
// `with_object`: the exception's name and obj are set, as the interpreter does where it reads.
Result attribute_error(Interpreter& t, PyObject* object, PyObject* name, bool with_object = true);

}  // namespace pellucid::protocols
