/* The error codes, one row each: code, Python exception, what it says. Includes nothing. */
ERROR( QB_OK,           "",                          "no error" )
ERROR( QB_EVALUE,       "ValueError",                "an argument has the right type but no valid value" )
ERROR( QB_ESHAPE,       "ValueError",                "shapes or axes do not fit" )
ERROR( QB_EDTYPE,       "ValueError",                "dtypes do not fit" )
ERROR( QB_ETYPE,        "TypeError",                 "an argument has the wrong type" )
ERROR( QB_EINDEX,       "IndexError",                "an index is out of range" )
ERROR( QB_EMEMORY,      "MemoryError",               "out of memory, or a size that no memory can hold" )
ERROR( QB_EUNSUPPORTED, "UnsupportedOperationError", "the target has no such operation" )
ERROR( QB_ETARGET,      "ValueError",                "no such target" )
ERROR( QB_ETRACER,      "TracerError",               "a traced value used outside its trace" )
ERROR( QB_EPARSE,       "ValueError",                "text that is not a program" )
ERROR( QB_EBUG,         "SystemError",               "a fault of the library itself" )
#undef ERROR
