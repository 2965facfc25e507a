/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What <cputune> comes to: weight, cap and affinity. */
#include "config/domain-config.h"
#include "lib/tap.h"

static void test_shares(void)
{
    static const struct {
        const char *vcpu, *cputune;
        guint weight, cap;
        const char *affinity;
    } rows[] = {
        {"<vcpu>2</vcpu>", "", 256, 0, ""},
        {"<vcpu>2</vcpu>", "<shares>2048</shares>", 512, 0, ""},
        {"<vcpu>2</vcpu>", "<shares>2</shares>", 1, 0, ""},
        {"<vcpu>2</vcpu>", "<shares>262144</shares>", 65535, 0, ""},
        {"<vcpu>2</vcpu>", "<quota>50000</quota>", 256, 100, ""},
        {"<vcpu>2</vcpu>", "<period>10000</period><quota>2500</quota>", 256, 50, ""},
        {"<vcpu>2</vcpu>", "<quota>-1</quota>", 256, 0, ""},
        {"<vcpu>2</vcpu>", "<quota>100000</quota>", 256, 0, ""}, /* all that it can use */
        {"<vcpu>2</vcpu>", "<global_quota>30000</global_quota>", 256, 30, ""},
        {"<vcpu>2</vcpu>", "<quota>50000</quota><global_quota>30000</global_quota>", 256, 30, ""},
        {"<vcpu>2</vcpu>", "<period>1000000</period><quota>1000</quota>", 256, 1, ""},
        {"<vcpu>64</vcpu>", "<quota>9223372036854775</quota><period>1000</period>", 256, 0, ""},
        {"<vcpu cpuset='2-3'>2</vcpu>", "", 256, 0, "2-3"},
        {"<vcpu>2</vcpu>", "<vcpupin vcpu='0' cpuset='1'/>", 256, 0, ""}, /* the other may */
        {"<vcpu cpuset='2-3'>2</vcpu>", "<vcpupin vcpu='0' cpuset='5'/>", 256, 0, "2-3,5"},
        {"<vcpu>2</vcpu>", "<vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='4'/>", 256, 0,
         "1,4"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *xml =
            g_strdup_printf("<domain type='lodge'><name>n</name><memory>4096</memory>%s"
                            "<cputune>%s</cputune></domain>",
                            rows[i].vcpu, rows[i].cputune);
        g_autoptr(LodgeDomainConfig) config = lodge_domain_config_parse(xml, -1, NULL, NULL);
        g_autofree char *affinity = NULL;
        LodgeCpuShare share;

        TAP_OK(config != NULL);
        lodge_domain_config_get_share(config, &share);
        affinity = lodge_cpu_set_format(&share.affinity);
        TAP_EQ(share.weight, rows[i].weight);
        TAP_EQ(share.cap_percent, rows[i].cap);
        TAP_STR(affinity, rows[i].affinity);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-tune.shares", test_shares},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
