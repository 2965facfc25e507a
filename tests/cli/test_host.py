# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of libvirt's own test driver: files that name machines and their states."""
import pathlib

STATES = {'running': 1, 'paused': 3, 'shut off': 5, 'crashed': 6}
MACHINE = """
  <domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
    <name>{name}</name><memory>{memory}</memory><vcpu>{vcpus}</vcpu><os><type>hvm</type></os>
    <test:runstate>{state}</test:runstate>
  </domain>"""


def escape(text):
    return text.replace('&', '&amp;').replace('<', '&lt;')


def write(folder, machines):
    """@machines: {name: state}. Returns the host's URI; each connection finds it as it is written."""
    path = pathlib.Path(folder) / 'host.xml'
    path.write_text('<node>' + ''.join(
        MACHINE.format(name=escape(name), memory=65536, vcpus=2, state=STATES[state])
        for name, state in machines.items()) + '\n</node>\n', encoding='utf-8')
    return f'test://{path}'
