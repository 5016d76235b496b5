// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

// '|' in `args` stands for NUL.
static size_t argv(const char *args, char *out) {
    size_t len = strlen(args);
    for (size_t i = 0; i < len; i++)
        out[i] = args[i] == '|' ? '\0' : args[i];
    out[len] = '\0';
    return len + 1;
}

static void masks(void **state) {
    (void)state;
    static const char *const table[][2] = {
        {"python|train.py|--lr|1e-4", "python train.py --lr 1e-4"},
        {"x|--api-key=abc|--lr=1", "x --api-key=*** --lr=1"},
        {"x|--api-key|abc|--lr|1", "x --api-key *** --lr 1"},
        {"x|--password|my pass|word", "x --password *** word"},
        {"x|--password=my pass|word", "x --password=*** word"},
        {"x|-Token|abc", "x -Token ***"},
        {"x|--use-auth-token|--lr|1", "x --use-auth-token --lr 1"},
        {"env|HF_TOKEN=hf_abc|python|t.py", "env HF_TOKEN=*** python t.py"},
        {"x|wandb.api_key=abc|lr=1", "x wandb.api_key=*** lr=1"},
        {"git|clone|https://user:pw@host/r", "git clone https://user:***@host/r"},
        {"git|clone|https://ghp_abc@host/r", "git clone https://***@host/r"},
        {"pip|--index-url=https://u:p@ss@host/simple?x=1", "pip --index-url=https://u:***@host/simple?x=1"},
        {"x|http://host/path@v1", "x http://host/path@v1"},
        {"x|https://host/?a=1&access_token=abc&b=2", "x https://host/?a=1&access_token=***&b=2"},
        {"sh|-c|SECRET=abc python t.py", "sh -c SECRET=***"},
        {"sh|-c|cd /x; SECRET=abc python t.py", "sh -c cd /x; SECRET=*** python t.py"},
        {"sh|-c|python t.py --api-key abc --lr 1", "sh -c python t.py --api-key *** --lr 1"},
        {"sh|-c|python t.py --api-key 'a b' --lr 1", "sh -c python t.py --api-key *** --lr 1"},
        {"x|--json|{\"lr\": 1, \"api_key\": \"a,b\", \"n\": 2}", "x --json {\"lr\": 1, \"api_key\": ***, \"n\": 2}"},
        {"curl|-H|Authorization: Bearer abc", "curl -H Authorization: ***"},
        {"curl|--header=Authorization: Bearer abc", "curl --header=Authorization: ***"},
        {"vllm|--max_tokens|5|--tokenizer|q|--author|me", "vllm --max_tokens 5 --tokenizer q --author me"},
        {"x|--hf_token|abc|--authorization|b", "x --hf_token *** --authorization ***"},
        {"x|/models/tokenizer|y", "x /models/tokenizer y"},
        {"a\nb|c\033[31m", "a b c?[31m"},
        {"VLLM::EngineCore||||", "VLLM::EngineCore"},
        {"||", ""},
        {"", ""},
        {"x||y", "x  y"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char args[256], out[AL_CMD_MAX];
        size_t len = argv(table[i][0], args);
        al_command_mask(args, len, out, sizeof out);
        assert_string_equal(out, table[i][1]);
    }
}

static void cuts(void **state) {
    (void)state;
    char args[3000], out[AL_CMD_MAX];
    memset(args, 'a', sizeof args);
    for (size_t i = 2; i + 1 < sizeof args; i += 2)
        memcpy(args + i, "\xc3\xa4", 2); // an umlaut at every even place: 511 falls inside one
    args[sizeof args - 1] = '\0';
    al_command_mask(args, sizeof args - 1, out, sizeof out);
    assert_int_equal(strlen(out), 510);
    assert_int_equal((unsigned char)out[509], 0xa4);
    // A secret behind the cut or right at it never shows.
    memset(args, 'a', sizeof args);
    memcpy(args + 500, "\0--key\0sekret\0", 15);
    al_command_mask(args, 514, out, sizeof out);
    assert_null(strstr(out, "sek"));
    assert_string_equal(out + 500, " --key ***");
    char small[8];
    al_command_mask("abcdefghijkl", 13, small, sizeof small);
    assert_string_equal(small, "abcdefg");
}

static void programs(void **state) {
    (void)state;
    static const char *const table[][4] = {
        {"/usr/bin/python3|-u|train.py|--x", "python3", "train.py", "--x"},
        {"python|-m|torch.distributed.run|--nproc_per_node|8|t.py", "python", "torch.distributed.run", "--nproc_per_node"},
        {"python|-W|ignore|-X|dev|/x/swift/cli/sft.py", "python", "/x/swift/cli/sft.py", ""},
        {"python3.11|-c|from multiprocessing.spawn import spawn_main|--multiprocessing-fork", "python3.11",
         "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork"},
        {"python|-mipykernel_launcher|-f|/k.json", "python", "ipykernel_launcher", "-f"},
        {"/opt/vllm|serve|m", "vllm", "/opt/vllm", "serve"},
        {"-bash", "bash", "-bash", ""},
        {"python", "python", "", ""},
        {"python|-W", "python", "", ""},
        {"VLLM::Worker_TP0||", "VLLM::Worker_TP0", "VLLM::Worker_TP0", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char args[256];
        struct al_program p;
        size_t len = argv(table[i][0], args);
        al_program_parse(args, len, &p);
        assert_string_equal(p.exe, table[i][1]);
        assert_string_equal(p.name, table[i][2]);
        assert_string_equal(p.verb, table[i][3]);
    }
}

int command_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks), cmocka_unit_test(cuts), cmocka_unit_test(programs)};
    return cmocka_run_group_tests_name("host command", tests, NULL, NULL);
}
