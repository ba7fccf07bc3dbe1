/* The targets, one row each: name, whether this build holds it. Includes nothing. A built target is `name_target`. */
TARGET( cpu,  1 )
TARGET( cuda, 0 )
TARGET( mlx,  0 )
#undef TARGET
