//! Keys and values as bytes. Owns the forms that Kafka's own serializers write; knows nothing of records.

use super::{Delivery, Producer, ProducerRecord};
use crate::ClientError;
use std::{borrow::Cow, sync::Arc};

/// Turns values into bytes.
pub trait Serializer<T: ?Sized>: Send + Sync {
    /// The bytes of a value that goes to this topic.
    ///
    /// # Errors
    /// [`ClientError::Serialization`] where the value has none.
    fn serialize<'a>(&self, topic: &str, value: &'a T) -> Result<Cow<'a, [u8]>, ClientError>;
}

/// Bytes and text as they are; text is UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesSerializer;

impl<T: AsRef<[u8]> + ?Sized> Serializer<T> for BytesSerializer {
    fn serialize<'a>(&self, _topic: &str, value: &'a T) -> Result<Cow<'a, [u8]>, ClientError> {
        Ok(Cow::Borrowed(value.as_ref()))
    }
}

/// Numbers with the most significant byte first, as Kafka's serializers of integers, longs and doubles write them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberSerializer;

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Serializer<$number> for NumberSerializer {
            fn serialize<'a>(&self, _topic: &str, value: &'a $number) -> Result<Cow<'a, [u8]>, ClientError> {
                Ok(Cow::Owned(value.to_be_bytes().to_vec()))
            }
        }
    )*};
}

numbers!(i16, i32, i64, f32, f64);

/// A producer of keys and values of these types.
pub struct TypedProducer<K: ?Sized, V: ?Sized> {
    producer: Arc<Producer>,
    key: Arc<dyn Serializer<K>>,
    value: Arc<dyn Serializer<V>>,
}

impl<K: ?Sized, V: ?Sized> TypedProducer<K, V> {
    /// Sends through `producer`, in these forms.
    pub fn new(
        producer: Arc<Producer>,
        key: impl Serializer<K> + 'static,
        value: impl Serializer<V> + 'static,
    ) -> TypedProducer<K, V> {
        TypedProducer { producer, key: Arc::new(key), value: Arc::new(value) }
    }

    /// The producer beneath.
    pub fn producer(&self) -> &Arc<Producer> {
        &self.producer
    }

    /// Sends a record; `None` is null.
    ///
    /// # Errors
    /// Those of the serializers, and of [`Producer::send`].
    pub async fn send(
        &self,
        topic: &str,
        key: Option<&K>,
        value: Option<&V>,
    ) -> Result<Delivery, ClientError> {
        let key = key.map(|key| self.key.serialize(topic, key)).transpose()?;
        let value = value.map(|value| self.value.serialize(topic, value)).transpose()?;
        let record = ProducerRecord {
            key: key.as_deref(),
            value: value.as_deref(),
            ..ProducerRecord::tombstone(topic)
        };
        self.producer.send(&record).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_with_the_most_significant_byte() {
        assert_eq!(*NumberSerializer.serialize("t", &258i32).unwrap(), [0, 0, 1, 2]);
        assert_eq!(NumberSerializer.serialize("t", &-1i64).unwrap().len(), 8);
        assert_eq!(&*BytesSerializer.serialize("t", "ä").unwrap(), "ä".as_bytes());
    }
}
