/* test_export_csv.c -- tables as CSV: exact text, folders, errors. */
#include "export_rig.h"

#include <math.h>
#include <sys/stat.h>

static void assert_csv(struct store *st, const char *table, bool raw, const char *expect)
{
    const char *path = unit_path("one.csv");
    struct export_options opts = { .table = table, .raw = raw };
    opm_error err = { 0 };
    struct buf b;

    assert_int_equal(export_csv(st, path, &opts, &err), 0);
    b = slurp(path);
    assert_string_equal(buf_str(&b), expect);
    buf_release(&b);
}

static void test_csv(void **state)
{
    struct store *st = store_begin();
    uint32_t track = add_track(st, "thread", "a,\"b\"\nc", 5, OPM_NULL_I64);
    struct export_options opts = { .table = "nosuch" };
    opm_error err = { 0 };

    (void)state;
    add_span(st, track, 5, 100, "=1+1", "{\"a\":1}");
    add_span(st, track, 15, 20, "", NULL);
    add_span(st, track, 200, -1, "caf\xc3\xa9 \xff", NULL);
    add_sample(st, track, 5, 0.1);
    add_sample(st, track, 6, -INFINITY);
    assert_int_equal(store_finish(st), 0);
    assert_csv(st, "track", false,
               "id,kind,name,pid,process,tid,device,instance,rank,host,unit,capacity,producer,"
               "consumer,workers,sampling,clock,source,log\n"
               "0,thread,\"a,\"\"b\"\"\nc\",5,,,,,,,,,,,,,,,\n");
    assert_csv(st, "span", true,
               "id,ts,dur,self,track,parent,depth,name,cat,layer,op,phase,step,record,correlation,"
               "wait,args\n"
               "0,0,100,80,0,,0,\"=1+1\",test,,,,,,,,\"{\"\"a\"\":1}\"\n"
               "1,10,20,20,0,0,1,\"\",test,,,,,,,,\n"
               "2,195,-1,,0,,0,caf\xc3\xa9 \xff,test,,,,,,,,\n");
    assert_csv(st, "span", false,
               "id,ts,dur,self,track,parent,depth,name,cat,layer,op,phase,step,record,correlation,"
               "wait,args\n"
               "0,0,100,80,0,,0,\"'=1+1\",test,,,,,,,,\"{\"\"a\"\":1}\"\n"
               "1,10,20,20,0,0,1,\"\",test,,,,,,,,\n"
               "2,195,-1,,0,,0,\"caf\xc3\xa9 \xef\xbf\xbd\",test,,,,,,,,\n");
    assert_csv(st, "sample", false, "ts,track,value\n0,0,0.1\n1,0,-inf\n");
    assert_csv(st, "flow", false, "src,dst,kind\n");
    assert_int_equal(export_csv(st, unit_path("x"), &opts, &err), OPM_ENOTFOUND);
    assert_non_null(strstr(err.msg, "'nosuch'"));
    opts.table = NULL;
    assert_int_equal(export_csv(st, "-", &opts, &err), OPM_EINVAL);
    assert_int_equal(export_csv(st, "-", NULL, &err), OPM_EINVAL);
    store_free(st);
}

static void test_csv_folder(void **state)
{
    struct store *st = store_full(20), *small = store_begin();
    const char *folder = unit_path("a/b/c");
    opm_error err = { 0 };
    struct stat sb;
    struct buf b;

    (void)state;
    assert_int_equal(export_csv(st, folder, NULL, &err), 0);
    for (int i = 0; i < TABLE_COUNT; i++) {
        char path[600];

        snprintf(path, sizeof(path), "%s/%s.csv", folder, store_table_defs[i].name);
        assert_int_equal(stat(path, &sb) == 0, store_nrow(st, (enum table_id)i) > 0);
    }
    /* Once more with hardly anything: no rows of the first export stay. */
    assert_int_equal(store_finish(small), 0);
    assert_int_equal(export_csv(small, folder, NULL, &err), 0);
    b = slurp(unit_path("a/b/c/flow.csv"));
    assert_string_equal(buf_str(&b), "src,dst,kind\n");
    buf_release(&b);
    assert_int_equal(export_csv(st, unit_path("a/b/c/flow.csv"), NULL, &err), OPM_EIO);
    store_free(small);
    store_free(st);
}

static struct store *fault_store;

static int step_csv(void)
{
    return export_csv(fault_store, unit_path("folder"), NULL, NULL);
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_path("");
    fault_store = store_full(30);
    unit_fail_each(step_csv);
    store_free(fault_store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_folder),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
