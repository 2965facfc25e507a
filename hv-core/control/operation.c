/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A table: from each operation to the function of hv/ that it is. */
#include "control/operation.h"

#include <errno.h>
#include <string.h>

#include "base/format.h"
#include "control/answer.h"
#include "control/report.h"

#include <hv/lock-stats.h>
#include <hv/stat-pages.h>

/* One that is being done. */
struct operation {
    const struct hv_operation_site *site;
    const struct hv_op_request *request;
    struct hv_domain *domain; /* held, of those that are of one */
    struct hv_op_answer *answer;
    char why[sizeof(((struct hv_op_refusal *)0)->why)];
    int fd;
};

static hv_handle handle_of(const struct operation *op)
{
    /* All that are of a domain begin with its handle. */
    return (hv_handle){op->request->body.domain.handle};
}

/* ---- of the core ---- */

static int list(struct operation *op)
{
    hv_roster_list(op->site->roster, (hv_handle){op->request->body.after.handle},
                   &op->answer->body.listing);
    return 0;
}

static int read_stats(struct operation *op)
{
    const struct hv_op_stats *wanted = &op->request->body.stats;
    struct hv_domain *domain = NULL;
    int rc = 0;

    if (wanted->kind == HV_STAT_PAGES_DOMAIN) {
        rc = hv_domain_get(op->site->core, (hv_handle){wanted->handle}, &domain);
    }
    if (rc == 0) {
        rc = hv_report_make(op->site->core, wanted, domain, &op->answer->body.stats, &op->fd);
    }
    hv_domain_put(domain);
    return rc;
}

static int write_stats(struct operation *op)
{
    return hv_core_write_stats(op->site->core);
}

static int set_sampling(struct operation *op)
{
    const struct hv_op_sampling *sampling = &op->request->body.sampling;

    return hv_core_set_lock_sampling(op->site->core, sampling->class_name, sampling->one_in);
}

static int create(struct operation *op)
{
    return hv_roster_create(op->site->roster, &op->request->body.create, &op->answer->body.made,
                            op->why, sizeof(op->why));
}

/* ---- of a domain in the roster ---- */

static int keep(struct operation *op)
{
    return hv_roster_keep(op->site->roster, handle_of(op));
}

static int attach(struct operation *op)
{
    int rc = hv_roster_attach(op->site->roster, handle_of(op), &op->answer->body.attached.position);

    if (rc == -ENOTSUP) {
        hv_format(op->why, sizeof(op->why), "the machine was made without a console");
    }
    return rc;
}

static int accept_output(struct operation *op)
{
    return hv_roster_accept(op->site->roster, handle_of(op), op->request->body.accept.position);
}

/* ---- of a domain ---- */

static int get(struct operation *op)
{
    hv_answer_made(op->domain, &op->answer->body.made);
    return 0;
}

/* A machine that runs is whole: from then on it outlives its maker. */
static int unpause(struct operation *op)
{
    int rc = keep(op);

    return rc < 0 ? rc : hv_domain_unpause(op->domain);
}

static int pause_domain(struct operation *op)
{
    return hv_domain_pause(op->domain);
}

static int reset(struct operation *op)
{
    return hv_domain_reset(op->domain);
}

static int press_power(struct operation *op)
{
    return hv_domain_press_power(op->domain);
}

static int press_nmi(struct operation *op)
{
    return hv_domain_press_nmi(op->domain);
}

static int kill_domain(struct operation *op)
{
    return hv_domain_kill(op->domain);
}

static int get_status(struct operation *op)
{
    hv_answer_status(op->domain, &op->answer->body.status);
    return 0;
}

static int set_boot(struct operation *op)
{
    const struct hv_op_set_boot *wanted = &op->request->body.set_boot;
    const struct hv_boot_state boot = {
        .long_mode = wanted->long_mode,
        .rip = wanted->rip,
        .rsp = wanted->rsp,
        .rsi = wanted->rsi,
        .rbx = wanted->rbx,
        .rax = wanted->rax,
        .cr3 = wanted->cr3,
        .gdt_base = wanted->gdt_base,
        .gdt_limit = wanted->gdt_limit,
        .cs = wanted->cs,
        .ds = wanted->ds,
    };

    return hv_domain_set_boot(op->domain, &boot);
}

static int copy(struct operation *op)
{
    const struct hv_op_copy *wanted = &op->request->body.copy;

    return hv_guest_copy(op->domain, (hv_gpa){wanted->gpa}, op->site->staging + wanted->staging,
                         wanted->bytes, (enum hv_copy_direction)wanted->direction);
}

static int set_sched(struct operation *op)
{
    return hv_domain_set_sched(op->domain, &op->request->body.set_sched.sched, op->why,
                               sizeof(op->why));
}

static int get_sched(struct operation *op)
{
    hv_domain_get_sched(op->domain, &op->answer->body.sched);
    return 0;
}

static int set_tick(struct operation *op)
{
    const struct hv_op_set_tick *wanted = &op->request->body.set_tick;
    const struct hv_vpt_policy policy = {
        .kind = (enum hv_tick_policy)wanted->kind,
        .threshold_ns = wanted->threshold_ns,
        .slew_per_cent = wanted->slew_per_cent,
        .limit_ns = wanted->limit_ns,
    };

    return hv_domain_set_tick_policy(op->domain, (enum hv_vpt_source)wanted->source, &policy,
                                     op->why, sizeof(op->why));
}

static int get_crash(struct operation *op)
{
    return hv_answer_crash(op->domain, &op->answer->body.crash);
}

static int get_teardown(struct operation *op)
{
    hv_answer_teardown(op->domain, &op->answer->body.teardown);
    return 0;
}

static int get_holds(struct operation *op)
{
    hv_answer_holds(op->domain, &op->answer->body.holds);
    return 0;
}

static int put_console(struct operation *op)
{
    const struct hv_op_console *console = &op->request->body.console;

    op->answer->body.taken.bytes =
        hv_domain_console_input(op->domain, console->data, console->bytes);
    return 0;
}

static const struct {
    int (*run)(struct operation *op); /* NULL: not one that is run */
    bool of_domain;                   /* which is looked up, and held meanwhile */
    uint32_t bytes;                   /* of the answer's body, when all is well */
} operations[HV_OPS] = {
    [HV_OP_LIST] = {list, false, sizeof(struct hv_op_listing)},
    [HV_OP_STATS] = {read_stats, false, sizeof(struct hv_op_stats_list)},
    [HV_OP_EXPORT] = {write_stats, false, 0},
    [HV_OP_SAMPLING] = {set_sampling, false, 0},
    [HV_OP_CREATE] = {create, false, sizeof(struct hv_op_made)},
    [HV_OP_GET] = {get, true, sizeof(struct hv_op_made)},
    [HV_OP_KEEP] = {keep, false, 0},
    [HV_OP_UNPAUSE] = {unpause, true, 0},
    [HV_OP_PAUSE] = {pause_domain, true, 0},
    [HV_OP_RESET] = {reset, true, 0},
    [HV_OP_POWER] = {press_power, true, 0},
    [HV_OP_KILL] = {kill_domain, true, 0},
    [HV_OP_STATUS] = {get_status, true, sizeof(struct hv_op_status)},
    [HV_OP_SET_BOOT] = {set_boot, true, 0},
    [HV_OP_COPY] = {copy, true, 0},
    [HV_OP_SET_SCHED] = {set_sched, true, 0},
    [HV_OP_GET_SCHED] = {get_sched, true, sizeof(struct hv_sched_parameters)},
    [HV_OP_SET_TICK] = {set_tick, true, 0},
    [HV_OP_CRASH] = {get_crash, true, sizeof(struct hv_op_crash)},
    [HV_OP_TEARDOWN] = {get_teardown, true, sizeof(struct hv_op_teardown)},
    [HV_OP_HOLDS] = {get_holds, true, sizeof(struct hv_op_holds)},
    [HV_OP_CONSOLE_IN] = {put_console, true, sizeof(struct hv_op_taken)},
    [HV_OP_ATTACH] = {attach, false, sizeof(struct hv_op_attached)},
    [HV_OP_ACCEPT] = {accept_output, false, 0},
    [HV_OP_NMI] = {press_nmi, true, 0},
};

void hv_operation_accept(const struct hv_op_request *request, size_t bytes,
                         struct hv_op_answer *answer_out)
{
    answer_out->header = (struct hv_op_header){
        .bytes = (uint32_t)(sizeof(answer_out->header) + bytes),
        .op = request->header.op,
        .serial = request->header.serial,
    };
}

void hv_operation_refuse(const struct hv_op_request *request, int result, const char *why,
                         struct hv_op_answer *answer_out)
{
    struct hv_op_refusal *refusal = &answer_out->body.refusal;

    hv_operation_accept(request, sizeof(*refusal), answer_out);
    answer_out->header.result = result;
    memset(refusal, 0, sizeof(*refusal));
    if (why) {
        memcpy(refusal->why, why, strnlen(why, sizeof(refusal->why) - 1));
    }
}

static int run(struct operation *op)
{
    uint32_t kind = op->request->header.op;
    int rc = 0;

    if (!operations[kind].run) {
        hv_format(op->why, sizeof(op->why), "HELLO comes once, and first");
        return -EPROTO;
    }
    if (operations[kind].of_domain) {
        rc = hv_domain_get(op->site->core, handle_of(op), &op->domain);
    }
    if (rc == 0) {
        rc = operations[kind].run(op);
    }
    hv_domain_put(op->domain);
    return rc;
}

void hv_operation_run(const struct hv_operation_site *site, const struct hv_op_request *request,
                      struct hv_op_answer *answer_out, int *fd_out)
{
    struct operation op = {.site = site, .request = request, .answer = answer_out, .fd = -1};
    int rc = run(&op);

    *fd_out = op.fd;
    if (rc < 0) {
        hv_operation_refuse(request, rc, op.why, answer_out);
    } else {
        hv_operation_accept(request, operations[request->header.op].bytes, answer_out);
    }
}
