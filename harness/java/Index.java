package retrieval_harness;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.lucene.codecs.KnnVectorsFormat;
import org.apache.lucene.codecs.lucene99.Lucene99Codec;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.KnnFloatVectorField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.DocValuesType;
import org.apache.lucene.index.FieldInfo;
import org.apache.lucene.index.FieldInfos;
import org.apache.lucene.index.FloatVectorValues;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexableField;
import org.apache.lucene.index.MultiBits;
import org.apache.lucene.index.MultiDocValues;
import org.apache.lucene.index.MultiTerms;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.SortedDocValues;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.index.Term;
import org.apache.lucene.index.VectorSimilarityFunction;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.KnnFloatVectorQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopDocs;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.BytesRefIterator;

/**
 * Whole columns into and out of a Lucene index, so that nothing crosses to Python one by one.
 *
 * <p>Numbers are little-endian, int32 and float32. Texts are their number, the length of each (-1 for null), then their
 * UTF-8.
 */
public final class Index {
  private Index() {}

  /** The document number of each hit, then its score. */
  public static byte[] hits(TopDocs topDocs) {
    ByteBuffer answer = buffer(8 * topDocs.scoreDocs.length);
    for (ScoreDoc hit : topDocs.scoreDocs) {
      answer.putInt(hit.doc);
    }
    for (ScoreDoc hit : topDocs.scoreDocs) {
      answer.putFloat(hit.score);
    }
    return answer.array();
  }

  /** A stored field of every document, deleted ones too; null where it is not stored. */
  public static byte[] storedValues(IndexReader reader, String field) throws IOException {
    StoredFields stored = reader.storedFields();
    String[] texts = new String[reader.maxDoc()];
    for (int document = 0; document < texts.length; document++) {
      texts[document] = stored.document(document, Set.of(field)).get(field);
    }
    return written(texts);
  }

  /** The same from a field of doc values, binary or sorted. */
  public static byte[] docValues(IndexReader reader, String field) throws IOException {
    String[] texts = new String[reader.maxDoc()];
    FieldInfo info = FieldInfos.getMergedFieldInfos(reader).fieldInfo(field);
    DocValuesType type = info == null ? DocValuesType.NONE : info.getDocValuesType();
    if (type == DocValuesType.BINARY) {
      BinaryDocValues values = MultiDocValues.getBinaryValues(reader, field);
      for (int document = values.nextDoc(); document < texts.length; document = values.nextDoc()) {
        texts[document] = values.binaryValue().utf8ToString();
      }
    } else if (type == DocValuesType.SORTED) {
      SortedDocValues values = MultiDocValues.getSortedValues(reader, field);
      for (int document = values.nextDoc(); document < texts.length; document = values.nextDoc()) {
        texts[document] = values.lookupOrd(values.ordValue()).utf8ToString();
      }
    }
    return written(texts);
  }

  /** Numbers of the documents that are not deleted, ascending. */
  public static byte[] liveDocuments(IndexReader reader) {
    Bits live = MultiBits.getLiveDocs(reader);
    ByteBuffer answer = buffer(4 * reader.numDocs());
    for (int document = 0; document < reader.maxDoc(); document++) {
      if (live == null || live.get(document)) {
        answer.putInt(document);
      }
    }
    return answer.array();
  }

  /** Every term of the field in ascending byte order. */
  public static byte[] terms(IndexReader reader, String field) throws IOException {
    List<String> found = new ArrayList<>();
    var terms = MultiTerms.getTerms(reader, field);
    if (terms != null) {
      BytesRefIterator all = terms.iterator();
      for (BytesRef term = all.next(); term != null; term = all.next()) {
        found.add(term.utf8ToString());
      }
    }
    return written(found.toArray(String[]::new));
  }

  /** The byte of each document's length; 0 for one without the field, null for a field without lengths. */
  public static byte[] lengths(IndexReader reader, String field) throws IOException {
    NumericDocValues norms = MultiDocValues.getNormValues(reader, field);
    if (norms == null) {
      return null;
    }
    byte[] found = new byte[reader.maxDoc()];
    for (int document = norms.nextDoc(); document < found.length; document = norms.nextDoc()) {
      found[document] = (byte) norms.longValue();
    }
    return found;
  }

  /** The documents of a term, ascending, then how often each has it. */
  public static byte[] postings(IndexReader reader, String field, String term) throws IOException {
    PostingsEnum postings =
        MultiTerms.getTermPostingsEnum(reader, field, new BytesRef(term), PostingsEnum.FREQS);
    List<int[]> found = new ArrayList<>();
    if (postings != null) {
      for (int document = postings.nextDoc();
          document != PostingsEnum.NO_MORE_DOCS;
          document = postings.nextDoc()) {
        found.add(new int[] {document, postings.freq()});
      }
    }
    ByteBuffer answer = buffer(8 * found.size());
    found.forEach(posting -> answer.putInt(posting[0]));
    found.forEach(posting -> answer.putInt(posting[1]));
    return answer.array();
  }

  /** The next vectors: the number of each one's document, then all vectors; empty at the end. */
  public static byte[] nextVectors(FloatVectorValues values, int most) throws IOException {
    int[] documents = new int[most];
    ByteBuffer vectors = buffer(4 * most * values.dimension());
    int count = 0;
    while (count < most && values.docID() != FloatVectorValues.NO_MORE_DOCS) {
      if (values.nextDoc() == FloatVectorValues.NO_MORE_DOCS) {
        break;
      }
      documents[count++] = values.docID();
      for (float value : values.vectorValue()) {
        vectors.putFloat(value);
      }
    }
    ByteBuffer answer = buffer(4 * count * (1 + values.dimension()));
    for (int place = 0; place < count; place++) {
      answer.putInt(documents[place]);
    }
    return answer.put(vectors.flip()).array();
  }

  /** Documents of one field of vectors, from rows of so many dimensions. */
  public static List<Collection<IndexableField>> vectorDocuments(
      byte[] rows, int dimensions, String field, VectorSimilarityFunction function) {
    return each(rows, dimensions, row -> fields(new KnnFloatVectorField(field, row, function)));
  }

  /** Queries for the nearest k to each row; filter may be null. */
  public static List<Query> vectorQueries(byte[] rows, int dimensions, String field, int k, Query filter) {
    return each(rows, dimensions, row -> new KnnFloatVectorQuery(field, row, k, filter));
  }

  /** Documents with an id and a text of term counts, as Anserini's generator makes them of JSON. */
  public static List<Collection<IndexableField>> textDocuments(
      byte[] ids, byte[] texts, String field, boolean termVectors) {
    FieldType type = textType(termVectors);
    String[] names = read(ids);
    List<Collection<IndexableField>> found = new ArrayList<>();
    for (String text : read(texts)) {
      String name = names[found.size()];
      found.add(
          List.of(
              new StringField("id", name, Field.Store.YES),
              new BinaryDocValuesField("id", new BytesRef(name)),
              new Field(field, text, type)));
    }
    return found;
  }

  /** Copies of the documents with a further field of term counts; an empty text adds none. */
  public static List<Collection<IndexableField>> withText(
      List<? extends Collection<IndexableField>> documents, String field, byte[] values, boolean termVectors) {
    FieldType type = textType(termVectors);
    String[] texts = read(values);
    List<Collection<IndexableField>> found = new ArrayList<>();
    for (Collection<IndexableField> document : documents) {
      Collection<IndexableField> copy = new ArrayList<>(document);
      if (!texts[found.size()].isEmpty()) {
        copy.add(new Field(field, texts[found.size()], type));
      }
      found.add(copy);
    }
    return found;
  }

  /** Documents of one field of terms with frequencies and without lengths. */
  public static List<Collection<IndexableField>> termDocuments(byte[] texts, String field) {
    FieldType type = new FieldType();
    type.setTokenized(true);
    type.setOmitNorms(true);
    type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    List<Collection<IndexableField>> found = new ArrayList<>();
    for (String text : read(texts)) {
      found.add(fields(new Field(field, text, type)));
    }
    return found;
  }

  /** Queries of terms with boosts; starts say where the terms of each query begin, and those of the last end. */
  public static List<Query> termQueries(String field, byte[] terms, byte[] boosts, byte[] starts) {
    var weights = ByteBuffer.wrap(boosts).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
    var limits = ByteBuffer.wrap(starts).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
    String[] texts = read(terms);
    List<Query> found = new ArrayList<>();
    for (int query = 0; query < limits.limit() - 1; query++) {
      BooleanQuery.Builder builder = new BooleanQuery.Builder();
      for (int place = limits.get(query); place < limits.get(query + 1); place++) {
        Query term = new TermQuery(new Term(field, texts[place]));
        builder.add(new BoostQuery(term, weights.get(place)), BooleanClause.Occur.SHOULD);
      }
      found.add(builder.build());
    }
    return found;
  }

  /** Copies of the documents with a further field of one exact term each. */
  public static List<Collection<IndexableField>> withField(
      List<? extends Collection<IndexableField>> documents, String field, byte[] values) {
    String[] texts = read(values);
    List<Collection<IndexableField>> found = new ArrayList<>();
    for (Collection<IndexableField> document : documents) {
      Collection<IndexableField> copy = new ArrayList<>(document);
      copy.add(new StringField(field, texts[found.size()], Field.Store.NO));
      found.add(copy);
    }
    return found;
  }

  /** Delete the documents whose field is one of these texts. */
  public static void delete(IndexWriter writer, String field, byte[] values) throws IOException {
    String[] texts = read(values);
    Term[] terms = new Term[texts.length];
    for (int place = 0; place < texts.length; place++) {
      terms[place] = new Term(field, texts[place]);
    }
    writer.deleteDocuments(terms);
  }

  /** Lucene's codec with a format of its own for vectors. */
  public static Lucene99Codec codecOf(KnnVectorsFormat format) {
    return new Lucene99Codec() {
      @Override
      public KnnVectorsFormat getKnnVectorsFormatForField(String field) {
        return format;
      }
    };
  }

  /** Set a static field to null: of a class that is only looked up, because it is of a later Java than this one. */
  public static void clearStatic(String type, String field) throws ReflectiveOperationException {
    Class.forName(type).getField(field).set(null, null);
  }

  private static FieldType textType(boolean termVectors) {
    FieldType type = new FieldType();
    type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    type.setStoreTermVectors(termVectors);
    type.setStoreTermVectorPositions(termVectors);
    return type;
  }

  private static Collection<IndexableField> fields(IndexableField field) {
    return List.of(field);
  }

  private static <T> List<T> each(byte[] rows, int dimensions, Function<float[], T> make) {
    var floats = ByteBuffer.wrap(rows).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
    List<T> found = new ArrayList<>();
    while (floats.hasRemaining()) {
      float[] row = new float[dimensions];
      floats.get(row);
      found.add(make.apply(row));
    }
    return found;
  }

  private static String[] read(byte[] content) {
    ByteBuffer ints = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
    String[] texts = new String[ints.getInt()];
    int start = 4 * (1 + texts.length);
    for (int place = 0; place < texts.length; place++) {
      int length = ints.getInt();
      texts[place] = length < 0 ? null : new String(content, start, length, StandardCharsets.UTF_8);
      start += Math.max(length, 0);
    }
    return texts;
  }

  private static byte[] written(String[] texts) {
    byte[][] parts = new byte[texts.length][];
    int bytes = 4 * (1 + texts.length);
    for (int place = 0; place < parts.length; place++) {
      parts[place] = texts[place] == null ? null : texts[place].getBytes(StandardCharsets.UTF_8);
      bytes += parts[place] == null ? 0 : parts[place].length;
    }
    ByteBuffer answer = buffer(bytes).putInt(parts.length);
    for (byte[] part : parts) {
      answer.putInt(part == null ? -1 : part.length);
    }
    for (byte[] part : parts) {
      if (part != null) {
        answer.put(part);
      }
    }
    return answer.array();
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}
