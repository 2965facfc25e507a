/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See asm-head.h. */
#include "engine/asm-head.h"

#include "lib/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES    256
#define INSNS_DEFAULT 10000
#define INDENT        " *     "
/* Of an event in the payload's log: common.inc. */
#define EVENT_BYTES   64

/* What is being read. */
struct reader {
    const char *path;
    const struct asm_image *image;
    struct asm_head *head;
    unsigned line;
    uint64_t log; /* where the payload's stands */
};

/* ---- Registers -------------------------------------------------------------------------------- */

static const char *const gprs[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                   "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const segs[] = {"es", "cs", "ss", "ds", "fs", "gs", "ldtr", "tr"};

enum other { RIP, RFLAGS, CR0, CR2, CR3, CR4, EFER, DR6, DR7, CPL, OTHERS };
static const char *const others[] = {"rip", "rflags", "cr0", "cr2", "cr3",
                                     "cr4", "efer",   "dr6", "dr7", "cpl"};
HV_STATIC_ASSERT(HV_ARRAY_LEN(others) == OTHERS, "a name each");

#define FIRST_SEG   HV_ARRAY_LEN(gprs)
#define FIRST_OTHER (FIRST_SEG + HV_ARRAY_LEN(segs))

static bool find_in(const char *const *names, size_t count, const char *name, size_t length,
                    unsigned *number_out)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *number_out = (unsigned)i;
            return true;
        }
    }
    return false;
}

static bool find_register(const char *name, size_t length, unsigned *number_out)
{
    if (find_in(gprs, HV_ARRAY_LEN(gprs), name, length, number_out)) {
        return true;
    }
    if (find_in(segs, HV_ARRAY_LEN(segs), name, length, number_out)) {
        *number_out += FIRST_SEG;
        return true;
    }
    if (find_in(others, HV_ARRAY_LEN(others), name, length, number_out)) {
        *number_out += FIRST_OTHER;
        return true;
    }
    return false;
}

static uint64_t look_at_other(const struct hv_cpu *cpu, enum other number)
{
    switch (number) {
    case RIP:
        return cpu->rip;
    case RFLAGS:
        return hv_cpu_rflags(cpu);
    case CR0:
        return cpu->cr0;
    case CR2:
        return cpu->cr2;
    case CR3:
        return cpu->cr3;
    case CR4:
        return cpu->cr4;
    case EFER:
        return cpu->efer;
    case DR6:
        return cpu->dr[6];
    case DR7:
        return cpu->dr[7];
    case CPL:
        return cpu->cpl;
    case OTHERS:
        break;
    }
    return 0;
}

static uint64_t look_at_register(const struct hv_cpu *cpu, unsigned number)
{
    if (number < FIRST_SEG) {
        return cpu->slot[number];
    }
    if (number < FIRST_OTHER) {
        return cpu->seg[number - FIRST_SEG].selector;
    }
    return look_at_other(cpu, (enum other)(number - FIRST_OTHER));
}

uint64_t asm_check_look(const struct asm_check *check, struct soft_machine *machine)
{
    uint64_t value = 0;

    switch (check->kind) {
    case ASM_CHECK_REGISTER:
        value = look_at_register(&machine->cpu, check->number);
        break;
    case ASM_CHECK_MEMORY:
        value = soft_machine_peek(machine, check->address, check->number);
        break;
    case ASM_CHECK_VECTOR:
    case ASM_CHECK_FIELD:
        value = soft_machine_peek(machine, check->address, 8);
        break;
    }
    return value & check->mask;
}

/* ---- Values ----------------------------------------------------------------------------------- */

static bool complain(const struct reader *reader, const char *what, const char *text)
{
    tap_note("%s:%u: %s: %s", reader->path, reader->line, what, text);
    return false;
}

static bool parse_term(const struct reader *reader, const char *text, size_t length,
                       uint64_t *value_out)
{
    char *end;

    if (length > 0 && text[0] >= '0' && text[0] <= '9') {
        *value_out = strtoull(text, &end, 0);
        return end == text + length;
    }
    return asm_image_symbol(reader->image, text, length, value_out);
}

/* Terms with + and - between them, to the end of @text or one of @stops. */
static bool parse_value(const struct reader *reader, const char **text_inout, const char *stops,
                        uint64_t *value_out)
{
    const char *text = *text_inout;
    bool minus = false;

    *value_out = 0;
    for (;;) {
        size_t length = strcspn(text, "+-");
        size_t stop = strcspn(text, stops);
        uint64_t term;

        length = length < stop ? length : stop;
        if (!parse_term(reader, text, length, &term)) {
            return complain(reader, "neither number nor symbol", text);
        }
        *value_out += minus ? -term : term;
        text += length;
        if (*text != '+' && *text != '-') {
            *text_inout = text;
            return true;
        }
        minus = *text++ == '-';
    }
}

/* ---- Words ------------------------------------------------------------------------------------ */

static struct asm_check *add_check(const struct reader *reader, const char *text)
{
    struct asm_head *head = reader->head;
    struct asm_check *check;

    if (head->checks == ASM_CHECKS_MOST) {
        return NULL;
    }
    check = &head->check[head->checks++];
    check->mask = UINT64_MAX;
    snprintf(check->text, sizeof(check->text), "line %u: %s", reader->line, text);
    return check;
}

/* `[&MASK]=VALUE`, which ends the word. */
static bool parse_want(const struct reader *reader, const char *text, struct asm_check *check)
{
    if (*text == '&') {
        text++;
        if (!parse_value(reader, &text, "=", &check->mask)) {
            return false;
        }
    }
    if (*text++ != '=' || !parse_value(reader, &text, "", &check->want)) {
        return complain(reader, "no value", text);
    }
    if (check->want & ~check->mask) {
        return complain(reader, "a value outside its mask", check->text);
    }
    return true;
}

static bool parse_memory(const struct reader *reader, const char **text_inout, unsigned bytes,
                         struct asm_check *check)
{
    const char *text = *text_inout;

    check->kind = ASM_CHECK_MEMORY;
    check->number = bytes;
    check->mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
    if (!parse_value(reader, &text, "]", &check->address) || *text != ']') {
        return complain(reader, "no address", *text_inout);
    }
    *text_inout = text + 1;
    return true;
}

static bool parse_state(struct reader *reader, const char *word)
{
    static const char *const sizes[] = {"byte[", "word[", "dword[", "quad["};
    struct asm_check *check = add_check(reader, word);
    size_t length = strcspn(word, "&=");

    if (!check) {
        return complain(reader, "too many", word);
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(sizes); i++) {
        size_t prefix = strlen(sizes[i]);

        if (strncmp(word, sizes[i], prefix) == 0) {
            word += prefix;
            return parse_memory(reader, &word, 1u << i, check) && parse_want(reader, word, check);
        }
    }
    check->kind = ASM_CHECK_REGISTER;
    return find_register(word, length, &check->number) ? parse_want(reader, word + length, check)
                                                       : complain(reader, "no such place", word);
}

/* The first word of an event: its vector. */
static bool parse_vector(struct reader *reader, const char *word)
{
    static const char *const names[] = {"#DE", "#DB", "#NMI", "#BP", "#OF", "#BR", "#UD",
                                        "#NM", "#DF", "",     "#TS", "#NP", "#SS", "#GP",
                                        "#PF", "",    "#MF",  "#AC", "#MC", "#XM"};
    struct asm_check *check = add_check(reader, word);
    unsigned vector;

    if (!check || reader->head->events == ASM_EVENTS_MOST) {
        return complain(reader, "too many", word);
    }
    check->kind = ASM_CHECK_VECTOR;
    check->number = reader->head->events++;
    check->address = reader->log + (uint64_t)check->number * EVENT_BYTES;
    if (find_in(names, HV_ARRAY_LEN(names), word, strlen(word), &vector)) {
        check->want = vector;
        return true;
    }
    return parse_value(reader, &word, "", &check->want);
}

/* The others: fields in the order of the log. */
static bool parse_field(struct reader *reader, const char *word)
{
    static const char *const fields[] = {"", "error", "rip", "cs", "rflags", "rsp", "cr2", "dr6"};
    struct asm_check *check = add_check(reader, word);
    size_t length = strcspn(word, "&=");
    unsigned field;

    if (!check || !find_in(fields, HV_ARRAY_LEN(fields), word, length, &field)) {
        return complain(reader, "no such field", word);
    }
    check->kind = ASM_CHECK_FIELD;
    check->address =
        reader->log + (uint64_t)(reader->head->events - 1) * EVENT_BYTES + 8 * (uint64_t)field;
    return parse_want(reader, word + length, check);
}

static bool parse_start(struct reader *reader, const char *word)
{
    static const char *const names[] = {"long", "protected", "real"};
    unsigned start;

    if (!find_in(names, HV_ARRAY_LEN(names), word, strlen(word), &start)) {
        return complain(reader, "no such mode", word);
    }
    reader->head->start = (enum asm_start)start;
    return true;
}

static bool parse_insns(struct reader *reader, const char *word)
{
    return parse_value(reader, &word, "", &reader->head->insns);
}

static bool parse_end(struct reader *reader, const char *word)
{
    reader->head->shutdown = strcmp(word, "shutdown") == 0;
    return reader->head->shutdown || strcmp(word, "halt") == 0 ||
           complain(reader, "no such end", word);
}

/* ---- Lines ------------------------------------------------------------------------------------ */

static bool parse_line(struct reader *reader, char *text)
{
    static const struct {
        const char *name;
        bool (*first)(struct reader *reader, const char *word);
        bool (*more)(struct reader *reader, const char *word);
    } keys[] = {
        {"start", parse_start, NULL},
        {"insns", parse_insns, NULL},
        {"end", parse_end, NULL},
        {"state", parse_state, parse_state},
        {"event", parse_vector, parse_field},
    };
    char *rest = NULL, *word = strtok_r(text, " \n", &rest);

    for (size_t i = 0; i < HV_ARRAY_LEN(keys); i++) {
        bool good;

        if (!word || strcmp(word, keys[i].name) != 0) {
            continue;
        }
        word = strtok_r(NULL, " \n", &rest);
        good = word && keys[i].first(reader, word);
        while (good && (word = strtok_r(NULL, " \n", &rest))) {
            good = keys[i].more ? keys[i].more(reader, word) : complain(reader, "too much", word);
        }
        return good || complain(reader, "cannot be read", keys[i].name);
    }
    return complain(reader, "no such line", word ? word : "");
}

static bool parse_file(struct reader *reader, FILE *file)
{
    char line[LINE_BYTES];
    bool started = false;

    while (fgets(line, sizeof(line), file) && strncmp(line, "#include", 8) != 0) {
        reader->line++;
        if (strncmp(line, INDENT, strlen(INDENT)) != 0) {
            continue;
        }
        started |= strstr(line, "start ") != NULL;
        if (!parse_line(reader, line + strlen(INDENT))) {
            return false;
        }
    }
    if (!started || (reader->head->checks == 0 && !reader->head->shutdown)) {
        return complain(reader, "promises nothing, or has no start", "");
    }
    return true;
}

bool asm_head_read(const char *path, const struct asm_image *image, struct asm_head *head_out)
{
    static const char log[] = "events";
    struct reader reader = {.path = path, .image = image, .head = head_out};
    FILE *file = fopen(path, "r");
    bool good = false;

    memset(head_out, 0, sizeof(*head_out));
    head_out->insns = INSNS_DEFAULT;
    if (!file) {
        complain(&reader, "cannot be read", "");
    } else if (!asm_image_symbol(image, log, strlen(log), &reader.log)) {
        complain(&reader, "has no such symbol", log);
    } else {
        good = parse_file(&reader, file);
    }
    if (file) {
        fclose(file);
    }
    return good;
}
