# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that answers on the pod-resources socket as the kubelet does (k8s.io/kubelet, podresources v1)."""

import concurrent.futures
import contextlib

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto

# message: (field, number, type, repeated); a type in capitals is another message
API = {
    "ListPodResourcesRequest": [],
    "NUMANode": [("ID", 1, "int64", False)],
    "TopologyInfo": [("nodes", 1, "NUMANode", True)],
    "ContainerDevices": [("resource_name", 1, "string", False), ("device_ids", 2, "string", True),
                         ("topology", 3, "TopologyInfo", False)],
    "ContainerResources": [("name", 1, "string", False), ("devices", 2, "ContainerDevices", True), ("cpu_ids", 3, "int64", True)],
    "PodResources": [("name", 1, "string", False), ("namespace", 2, "string", False),
                     ("containers", 3, "ContainerResources", True)],
    "ListPodResourcesResponse": [("pod_resources", 1, "PodResources", True)],
}


def messages():
    """Classes for API, without a compiler of .proto files."""
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    for name, fields in API.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            f = message.field.add(name=field, number=number, label=FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL)
            if kind in API:
                f.type, f.type_name = FIELD.TYPE_MESSAGE, f".v1.{kind}"
            else:
                f.type = {"string": FIELD.TYPE_STRING, "int64": FIELD.TYPE_INT64}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in API}


V1 = messages()


def pod(name, namespace, container, resource, devices):
    return V1["PodResources"](name=name, namespace=namespace, containers=[V1["ContainerResources"](
        name=container, cpu_ids=range(300), devices=[V1["ContainerDevices"](
            resource_name=resource, device_ids=devices, topology=V1["TopologyInfo"](nodes=[V1["NUMANode"](ID=1)]))])])


@contextlib.contextmanager
def kubelet(path, answer):
    """Serves List on the socket; answer(context) gives the pods."""
    def list_pods(_, context):
        return V1["ListPodResourcesResponse"](pod_resources=answer(context))

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", {
        "List": grpc.unary_unary_rpc_method_handler(
            list_pods, request_deserializer=V1["ListPodResourcesRequest"].FromString,
            response_serializer=V1["ListPodResourcesResponse"].SerializeToString)}),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()
