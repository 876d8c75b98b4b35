//! Definitions of `opentelemetry.proto.common.v1` and `opentelemetry.proto.resource.v1`.

use super::{Field, Kind, Message, Role};
use crate::field::{any_value, array_value, entity_ref, key_value, key_value_list, resource, scope};

pub(crate) static ANY_VALUE: Message = Message::new(
    Role::Part,
    &[
        Field::new(any_value::STRING_VALUE, "string_value", "stringValue", Kind::String),
        Field::new(any_value::BOOL_VALUE, "bool_value", "boolValue", Kind::Bool),
        Field::new(any_value::INT_VALUE, "int_value", "intValue", Kind::Int64),
        Field::new(any_value::DOUBLE_VALUE, "double_value", "doubleValue", Kind::Double),
        Field::new(any_value::ARRAY_VALUE, "array_value", "arrayValue", Kind::Message(&ARRAY_VALUE)),
        Field::new(any_value::KVLIST_VALUE, "kvlist_value", "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
        Field::new(any_value::BYTES_VALUE, "bytes_value", "bytesValue", Kind::Bytes),
        Field::new(any_value::STRING_VALUE_STRINDEX, "string_value_strindex", "stringValueStrindex", Kind::Int32),
    ],
)
.oneof(&[
    any_value::STRING_VALUE,
    any_value::BOOL_VALUE,
    any_value::INT_VALUE,
    any_value::DOUBLE_VALUE,
    any_value::ARRAY_VALUE,
    any_value::KVLIST_VALUE,
    any_value::BYTES_VALUE,
    any_value::STRING_VALUE_STRINDEX,
]);

static ARRAY_VALUE: Message = Message::new(
    Role::Part,
    &[Field::new(array_value::VALUES, "values", "values", Kind::Message(&ANY_VALUE)).repeated()],
);

static KEY_VALUE_LIST: Message = Message::new(
    Role::Part,
    &[Field::new(key_value_list::VALUES, "values", "values", Kind::Message(&KEY_VALUE)).repeated()],
);

pub(crate) static KEY_VALUE: Message = Message::new(
    Role::Attribute,
    &[
        Field::new(key_value::KEY, "key", "key", Kind::String),
        Field::new(key_value::VALUE, "value", "value", Kind::Message(&ANY_VALUE)),
        Field::new(key_value::KEY_STRINDEX, "key_strindex", "keyStrindex", Kind::Int32),
    ],
);

pub(crate) static SCOPE: Message = Message::new(
    Role::Part,
    &[
        Field::new(scope::NAME, "name", "name", Kind::String),
        Field::new(scope::VERSION, "version", "version", Kind::String),
        Field::new(scope::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(scope::DROPPED_ATTRIBUTES_COUNT, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
    ],
);

pub(crate) static RESOURCE: Message = Message::new(
    Role::Part,
    &[
        Field::new(resource::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(
            resource::DROPPED_ATTRIBUTES_COUNT,
            "dropped_attributes_count",
            "droppedAttributesCount",
            Kind::Uint32,
        ),
        Field::new(resource::ENTITY_REFS, "entity_refs", "entityRefs", Kind::Message(&ENTITY_REF)).repeated(),
    ],
);

static ENTITY_REF: Message = Message::new(
    Role::Part,
    &[
        Field::new(entity_ref::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
        Field::new(entity_ref::TYPE, "type", "type", Kind::String),
        Field::new(entity_ref::ID_KEYS, "id_keys", "idKeys", Kind::String).repeated(),
        Field::new(entity_ref::DESCRIPTION_KEYS, "description_keys", "descriptionKeys", Kind::String).repeated(),
    ],
);
