// Reading a code object asks CPython for its bytes, which looks behind their end where an instruction lacks room for
// its caches. Such bytes come from edited code objects only.
#include <Python.h>
#include <opcode.h>

#include "bytecode/code_units.h"

namespace pellucid::bytecode {
namespace {

// Code units of inline cache behind an instruction that the interpreter may have specialised.
int caches_of(int opcode) {
  switch (opcode) {
    case BINARY_OP:
    case BINARY_OP_ADAPTIVE:
    case BINARY_OP_ADD_FLOAT:
    case BINARY_OP_ADD_INT:
    case BINARY_OP_ADD_UNICODE:
    case BINARY_OP_INPLACE_ADD_UNICODE:
    case BINARY_OP_MULTIPLY_FLOAT:
    case BINARY_OP_MULTIPLY_INT:
    case BINARY_OP_SUBTRACT_FLOAT:
    case BINARY_OP_SUBTRACT_INT:
      return 1;
    case BINARY_SUBSCR:
    case BINARY_SUBSCR_ADAPTIVE:
    case BINARY_SUBSCR_DICT:
    case BINARY_SUBSCR_GETITEM:
    case BINARY_SUBSCR_LIST_INT:
    case BINARY_SUBSCR_TUPLE_INT:
      return 4;
    case CALL:
    case CALL_ADAPTIVE:
    case CALL_PY_EXACT_ARGS:
    case CALL_PY_WITH_DEFAULTS:
      return 4;
    case COMPARE_OP:
    case COMPARE_OP_ADAPTIVE:
    case COMPARE_OP_FLOAT_JUMP:
    case COMPARE_OP_INT_JUMP:
    case COMPARE_OP_STR_JUMP:
      return 2;
    case LOAD_ATTR:
    case LOAD_ATTR_ADAPTIVE:
    case LOAD_ATTR_INSTANCE_VALUE:
    case LOAD_ATTR_MODULE:
    case LOAD_ATTR_SLOT:
    case LOAD_ATTR_WITH_HINT:
      return 4;
    case LOAD_GLOBAL:
    case LOAD_GLOBAL_ADAPTIVE:
    case LOAD_GLOBAL_BUILTIN:
    case LOAD_GLOBAL_MODULE:
      return 5;
    case LOAD_METHOD:
    case LOAD_METHOD_ADAPTIVE:
    case LOAD_METHOD_CLASS:
    case LOAD_METHOD_MODULE:
    case LOAD_METHOD_NO_DICT:
    case LOAD_METHOD_WITH_DICT:
    case LOAD_METHOD_WITH_VALUES:
      return 10;
    case PRECALL:
    case PRECALL_ADAPTIVE:
    case PRECALL_BOUND_METHOD:
    case PRECALL_BUILTIN_CLASS:
    case PRECALL_BUILTIN_FAST_WITH_KEYWORDS:
    case PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS:
    case PRECALL_NO_KW_BUILTIN_FAST:
    case PRECALL_NO_KW_BUILTIN_O:
    case PRECALL_NO_KW_ISINSTANCE:
    case PRECALL_NO_KW_LEN:
    case PRECALL_NO_KW_LIST_APPEND:
    case PRECALL_NO_KW_METHOD_DESCRIPTOR_FAST:
    case PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS:
    case PRECALL_NO_KW_METHOD_DESCRIPTOR_O:
    case PRECALL_NO_KW_STR_1:
    case PRECALL_NO_KW_TUPLE_1:
    case PRECALL_NO_KW_TYPE_1:
    case PRECALL_PYFUNC:
      return 1;
    case STORE_ATTR:
    case STORE_ATTR_ADAPTIVE:
    case STORE_ATTR_INSTANCE_VALUE:
    case STORE_ATTR_SLOT:
    case STORE_ATTR_WITH_HINT:
      return 4;
    case STORE_SUBSCR:
    case STORE_SUBSCR_ADAPTIVE:
    case STORE_SUBSCR_DICT:
    case STORE_SUBSCR_LIST_INT:
      return 1;
    case UNPACK_SEQUENCE:
    case UNPACK_SEQUENCE_ADAPTIVE:
    case UNPACK_SEQUENCE_LIST:
    case UNPACK_SEQUENCE_TUPLE:
    case UNPACK_SEQUENCE_TWO_TUPLE:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

bool has_whole_instructions(PyCodeObject* code) {
  const Py_ssize_t count = Py_SIZE(code);
  const _Py_CODEUNIT* units = _PyCode_CODE(code);
  Py_ssize_t at = 0;
  while (at < count) at += 1 + caches_of(_Py_OPCODE(units[at]));
  return at == count;
}

}  // namespace pellucid::bytecode
