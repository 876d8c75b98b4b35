//! Definitions of `opentelemetry.proto.common.v1` and `opentelemetry.proto.resource.v1`.

use super::{Field, Kind, Message, Role};

pub(crate) static ANY_VALUE: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "string_value", "stringValue", Kind::String),
        Field::new(2, "bool_value", "boolValue", Kind::Bool),
        Field::new(3, "int_value", "intValue", Kind::Int64),
        Field::new(4, "double_value", "doubleValue", Kind::Double),
        Field::new(5, "array_value", "arrayValue", Kind::Message(&ARRAY_VALUE)),
        Field::new(6, "kvlist_value", "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
        Field::new(7, "bytes_value", "bytesValue", Kind::Bytes),
        Field::new(8, "string_value_strindex", "stringValueStrindex", Kind::Int32),
    ],
)
.oneof(&[1, 2, 3, 4, 5, 6, 7, 8]);

static ARRAY_VALUE: Message =
    Message::new(Role::Part, &[Field::new(1, "values", "values", Kind::Message(&ANY_VALUE)).repeated()]);

static KEY_VALUE_LIST: Message =
    Message::new(Role::Part, &[Field::new(1, "values", "values", Kind::Message(&KEY_VALUE)).repeated()]);

pub(crate) static KEY_VALUE: Message = Message::new(
    Role::Attribute,
    &[
        Field::new(1, "key", "key", Kind::String),
        Field::new(2, "value", "value", Kind::Message(&ANY_VALUE)),
        Field::new(3, "key_strindex", "keyStrindex", Kind::Int32),
    ],
);

pub(crate) static SCOPE: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "name", "name", Kind::String),
        Field::new(2, "version", "version", Kind::String),
        Field::new(3, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(4, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
    ],
);

pub(crate) static RESOURCE: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(2, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(3, "entity_refs", "entityRefs", Kind::Message(&ENTITY_REF)).repeated(),
    ],
);

static ENTITY_REF: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "schema_url", "schemaUrl", Kind::String),
        Field::new(2, "type", "type", Kind::String),
        Field::new(3, "id_keys", "idKeys", Kind::String).repeated(),
        Field::new(4, "description_keys", "descriptionKeys", Kind::String).repeated(),
    ],
);
