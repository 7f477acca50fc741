package conformance.legacy;

import com.microsoft.azure.storage.table.Encrypt;
import com.microsoft.azure.storage.table.Ignore;
import com.microsoft.azure.storage.table.StoreAs;
import com.microsoft.azure.storage.table.TableServiceEntity;
import java.util.Date;
import java.util.UUID;

/** An entity class as applications declare it for the client: getters and setters define the properties. */
public class Car extends TableServiceEntity {
    private int doors;
    private Long mileage;
    private double weight;
    private boolean electric;
    private UUID id;
    private Date built;
    private byte[] photo;
    private String colour;
    private String owner;
    private String note;

    /** For the client. */
    public Car() {
    }

    public Car(String partition, String row) {
        super(partition, row);
    }

    public int getDoors() {
        return doors;
    }

    public void setDoors(int doors) {
        this.doors = doors;
    }

    public Long getMileage() {
        return mileage;
    }

    public void setMileage(Long mileage) {
        this.mileage = mileage;
    }

    public double getWeight() {
        return weight;
    }

    public void setWeight(double weight) {
        this.weight = weight;
    }

    public boolean getElectric() {
        return electric;
    }

    public void setElectric(boolean electric) {
        this.electric = electric;
    }

    public UUID getId() {
        return id;
    }

    public void setId(UUID id) {
        this.id = id;
    }

    public Date getBuilt() {
        return built;
    }

    public void setBuilt(Date built) {
        this.built = built;
    }

    public byte[] getPhoto() {
        return photo;
    }

    public void setPhoto(byte[] photo) {
        this.photo = photo;
    }

    @StoreAs(name = "Color")
    public String getColour() {
        return colour;
    }

    @StoreAs(name = "Color")
    public void setColour(String colour) {
        this.colour = colour;
    }

    /** Encrypted if the request options have an encryption policy. */
    @Encrypt
    public String getOwner() {
        return owner;
    }

    @Encrypt
    public void setOwner(String owner) {
        this.owner = owner;
    }

    /** Not stored. */
    @Ignore
    public String getNote() {
        return note;
    }

    @Ignore
    public void setNote(String note) {
        this.note = note;
    }
}
