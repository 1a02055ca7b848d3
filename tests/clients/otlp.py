"""Reads OTLP in JSON, one document a line, by the protocol's own definition, and tells the spans that are in it.

The definition's JSON has bytes in base64; OTLP has ids in hex. That is the one difference, and it is taken out first.
Whatever else the definition does not know is an error.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def in_base64(value):
    if isinstance(value, list):
        return [in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {}
    for key, item in value.items():
        if key in LENGTHS:
            raw = bytes.fromhex(item)
            assert len(raw) == LENGTHS[key] and any(raw), f"{key} is {item}"
            plain[key] = base64.b64encode(raw).decode()
        else:
            plain[key] = in_base64(item)
    return plain


def facts(attributes):
    kinds = ("string_value", "int_value")
    read = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        assert kind in kinds, f"{attribute.key} is a {kind}"
        read[attribute.key] = getattr(attribute.value, kind)
    return read


def told(span, resource):
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex() or None,
        "state": span.trace_state,
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind),
        "from": span.start_time_unix_nano,
        "until": span.end_time_unix_nano,
        "facts": facts(span.attributes),
        "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
        "failed": span.status.code == Status.STATUS_CODE_ERROR,
        "resource": resource,
    }


spans = []
for line in sys.stdin:
    request = ExportTraceServiceRequest()
    json_format.ParseDict(in_base64(json.loads(line)), request)
    for whose in request.resource_spans:
        resource = facts(whose.resource.attributes)
        for scope in whose.scope_spans:
            assert scope.scope.name == "pombo", scope.scope
            spans += [told(span, resource) for span in scope.spans]
json.dump(spans, sys.stdout)
