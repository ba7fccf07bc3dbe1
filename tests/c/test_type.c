/* test_type.c: sizes with overflow, texts, and the op table read as data. */
#include "ir/ir.h"
#include "test.h"

static Type make(int dtype, int rank, int64_t a, int64_t b)
{
    return type_make(dtype, rank, (int64_t[]){a, b});
}

static void test_sizes_and_bytes_of_a_type(void)
{
    Type t = make(QB_F32, 2, 3, 5), scalar = make(QB_F64, 0, 0, 0), mask = make(QB_BOOL, 1, 7, 0);
    CHECK_EQ_INT(type_size(&t), 15);
    CHECK_EQ_INT(type_bytes(&t), 60);
    CHECK_EQ_INT(type_size(&scalar), 1);
    CHECK_EQ_INT(type_bytes(&scalar), 8);
    CHECK_EQ_INT(type_bytes(&mask), 7);
}

static void test_a_size_that_overflows_is_minus_one(void)
{
    Type t = make(QB_F64, 2, INT64_MAX, 2), u = make(QB_F64, 2, INT64_MAX / 4, 1);
    const char *what = "";
    CHECK_EQ_INT(type_size(&t), -1);
    CHECK_EQ_INT(type_bytes(&u), -1);
    CHECK_EQ_INT(type_size(&u), INT64_MAX / 4);
    CHECK_EQ_INT(type_problem(&u, &what), QB_EMEMORY);
    CHECK(strstr(what, "memory"));
}

static void test_what_no_value_can_have_is_a_problem(void)
{
    const char *what = "";
    Type good = make(QB_F64, 2, 1, 2), empty = make(QB_F64, 2, 3, 0),
         negative = make(QB_F64, 1, -1, 0);
    Type rank = type_make(QB_F64, 17, (int64_t[17]){1}), dtype = type_make(9, 0, NULL);
    CHECK_EQ_INT(type_problem(&good, &what), QB_OK);
    CHECK_EQ_INT(type_problem(&empty, &what), QB_ESHAPE);
    CHECK_EQ_INT(type_problem(&negative, &what), QB_ESHAPE);
    CHECK_EQ_INT(type_problem(&rank, &what), QB_ESHAPE);
    CHECK_EQ_INT(type_problem(&dtype, &what), QB_EDTYPE);
}

static void test_a_type_reads_as_dtype_and_shape(void)
{
    char buf[12];
    Type t = make(QB_F64, 2, 2, 3), scalar = make(QB_F32, 0, 0, 0), mask = make(QB_BOOL, 1, 4, 0);
    CHECK_EQ_STR(TYPE_TEXT(&t), "f64[2,3]");
    CHECK_EQ_STR(TYPE_TEXT(&scalar), "f32[]");
    CHECK_EQ_STR(TYPE_TEXT(&mask), "bool[4]");
    Type wide = make(QB_F64, 2, 123456, 789012);
    CHECK_EQ_STR(type_text(&wide, buf, sizeof buf), "f64[1234...");
    CHECK_EQ_STR(dtype_ir(QB_BOOL), "i1");
    CHECK_EQ_INT(dtype_find("f32", 3), QB_F32);
    CHECK_EQ_INT(dtype_find("f3", 2), -1);
}

static void test_weak_counts_only_for_exact_types(void)
{
    Type a = make(QB_F64, 1, 3, 0), b = a;
    b.weak = 1;
    CHECK(type_same(&a, &b));
    CHECK(!type_exact(&a, &b));
    b.dims[0] = 4;
    CHECK(!type_same(&a, &b));
}

static void test_every_op_is_found_by_its_name(void)
{
    for (int i = 0; i < OP_COUNT; i++) CHECK_EQ_INT(op_find(op_table[i].name), i);
    CHECK_EQ_INT(op_find("sine"), -1);
    CHECK(op_table[OP_less].to_bool && !op_table[OP_tanh].to_bool);
    CHECK(op_table[OP_logical_not].in == IN_B && op_table[OP_add].in == IN_F &&
          op_table[OP_equal].in == IN_A);
    CHECK_EQ_INT(op_table[OP_concat].arity, 255);
    CHECK(op_elementwise(OP_where) && op_elementwise(OP_tanh) && !op_elementwise(OP_reshape) &&
          !op_elementwise(-1));
    CHECK_EQ_STR(op_table[OP_cbrt].mlx, "NONE");
}

int main(void)
{
    RUN(test_sizes_and_bytes_of_a_type);
    RUN(test_a_size_that_overflows_is_minus_one);
    RUN(test_what_no_value_can_have_is_a_problem);
    RUN(test_a_type_reads_as_dtype_and_shape);
    RUN(test_weak_counts_only_for_exact_types);
    RUN(test_every_op_is_found_by_its_name);
    return test_report();
}
