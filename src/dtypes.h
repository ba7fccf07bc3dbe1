/* The dtypes, one row each. Includes nothing; a reader defines DTYPE and this file undefines it.
   name: enum suffix and text name. ctype: storage. ir: name in IR text. py: buffer-protocol format. floating: 1 or 0. */
/*     name     ctype          ir    public      py   floating */
DTYPE( f32,     float,         f32,  float32,    "f", 1 )
DTYPE( f64,     double,        f64,  float64,    "d", 1 )
DTYPE( bool,    unsigned char, i1,   bool,       "?", 0 )
#undef DTYPE
